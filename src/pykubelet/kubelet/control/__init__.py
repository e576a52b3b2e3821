"""Stage 2, who decides: the sync loop and one worker per pod."""

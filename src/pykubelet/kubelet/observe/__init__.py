"""Stage 4, what happened: runtime events (PLEG) and probes."""

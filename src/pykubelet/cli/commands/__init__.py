"""The commands, one module for each, imported on use; ``cli/app.py`` has the table of them."""

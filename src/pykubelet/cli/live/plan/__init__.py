"""Decisions and renderings of the live view. Pure."""

"""Decisions of the start of the server. Pure."""

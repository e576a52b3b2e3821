"""Decisions about images; pure."""

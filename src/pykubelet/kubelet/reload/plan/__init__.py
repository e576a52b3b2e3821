"""Decisions about reloads. Pure."""

"""Decisions of the storage. Pure."""

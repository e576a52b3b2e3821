"""Decides what a new configuration changes. Pure."""

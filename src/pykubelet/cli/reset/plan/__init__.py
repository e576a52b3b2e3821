"""Decides which objects are leftovers of this program; pure."""

"""Decides which objects are leftovers of this program; pure.

Imports nothing of the project; start reading in ``firewall.py``.
"""

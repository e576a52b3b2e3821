"""Arithmetic of counters. Pure: no module here reads files, clocks or the network, or awaits.

Imports nothing of the project; start reading in ``counters.py``.
"""

"""Pure decisions of a graceful node shutdown: which pods end together, and with which grace period.

Imports ``base``, ``models``; start reading in ``groups.py``.
"""

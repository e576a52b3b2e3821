"""Decisions of the start of the server. Pure.

Imports ``base``; start reading in ``start.py``.
"""

"""Decisions about reloads. Pure.

Imports ``base``; start reading in ``settling.py``.
"""

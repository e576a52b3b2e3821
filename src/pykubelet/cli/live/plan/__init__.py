"""Decisions and renderings of the live view. Pure.

Imports ``base``, ``cli``; start reading in ``live_frame.py``.
"""

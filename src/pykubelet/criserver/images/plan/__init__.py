"""Decisions about images; pure.

Imports ``base``, ``criserver.images``; start reading in ``artifact.py``.
"""

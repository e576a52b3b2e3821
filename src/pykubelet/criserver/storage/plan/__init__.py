"""Decisions of the storage. Pure.

Imports ``base``, ``criserver.types``; start reading in ``pace.py``.
"""

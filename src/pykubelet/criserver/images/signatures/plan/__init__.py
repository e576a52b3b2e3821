"""Pure rules of the image policy.

Imports ``base``, ``criserver.images``; start reading in ``policy.py``.
"""

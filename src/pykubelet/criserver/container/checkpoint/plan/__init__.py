"""Decides from the files of a checkpoint whether a container may be restored from it. Pure.

Imports ``base``, ``criserver.spec``; start reading in ``dumped.py``.
"""

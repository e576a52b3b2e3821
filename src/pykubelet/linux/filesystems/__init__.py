"""Mounts, file systems and directory trees: mounting, the mount table, usage, removal of trees that others fill.

Imports ``base`` and the rest of ``linux``. Functions block. Start reading at ``mounts.py`` and ``removal.py``.
"""

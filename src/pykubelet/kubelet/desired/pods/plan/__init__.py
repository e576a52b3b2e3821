"""Decisions about mirror pods. Pure: no module here reads files, clocks or the network, or awaits.

Imports ``kubelet.types``, ``models``; start reading in ``mirror_changes.py``.
"""

"""Decisions about objects that pods refer to. Pure: no module here reads files, clocks or the network, or awaits.

Imports ``base``, ``kubelet.desired``, ``kubelet.types``, ``models``; start reading in ``references.py``.
"""

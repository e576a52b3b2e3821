"""The rules of a check. Pure: no module here reads files, clocks or the network, or awaits.

Imports ``base``, ``kubelet.desired``, ``kubelet.types``, ``models``; start reading in ``placement.py``.
"""

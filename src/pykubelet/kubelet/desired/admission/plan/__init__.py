"""The rules of admission. Pure: no module here reads files, clocks or the network, or awaits.

Imports ``base``, ``kubelet.desired``, ``kubelet.types``, ``models``; start reading in ``rules.py``.
"""

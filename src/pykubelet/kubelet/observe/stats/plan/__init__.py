"""Parsing of the kernel's files, and conversion of snapshots to what clients read.

Pure: no module here reads files, clocks or the network, or awaits. Imports ``kubelet.observe``, ``kubelet.types``,
``linux``, ``models``; start reading in ``summary.py``.
"""

"""Decisions of the sync loop and of housekeeping: when the loop is stuck, and which pods are orphans.

Pure: no module here reads files, clocks or the network, or awaits. Imports ``base``, ``kubelet.types``; start reading
in ``orphans.py``.
"""

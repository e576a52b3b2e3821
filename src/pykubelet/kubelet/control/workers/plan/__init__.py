"""Decisions of a pod worker: its life cycle, the deadline and rejection of its pod, and counts.

Pure: no module here reads files, clocks or the network, or awaits. Imports ``base``, ``kubelet.control``,
``kubelet.types``, ``models``; start reading in ``lifecycle.py``.
"""

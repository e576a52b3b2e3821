"""Decisions of the history: what a file's records amount to, what is kept, which containers have ended.

Pure: no module here reads files, clocks or the network, or awaits. Imports ``base``, ``kubelet.report``,
``kubelet.types``, ``models``; start reading in ``replay.py``.
"""

"""Decisions of eviction: thresholds, the order of pods, limits of local storage.

Pure: no module here reads files, clocks or the network, or awaits. Imports ``base``, ``kubelet.observe``,
``kubelet.types``, ``models``; start reading in ``thresholds.py``.
"""

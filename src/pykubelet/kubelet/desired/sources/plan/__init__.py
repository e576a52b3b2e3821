"""Decisions of the sources: the effective version of each manifest, and when to read a file.

Pure: no module here reads files, clocks or the network, or awaits. Imports ``base``, ``kubelet.desired``,
``kubelet.types``, ``models``; start reading in ``effective_manifests.py``.
"""

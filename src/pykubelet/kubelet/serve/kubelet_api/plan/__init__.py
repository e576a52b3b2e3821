"""Decisions of the kubelet API server: request attributes, targets, log queries, TLS settings, status pages.

Pure: no module here reads files, clocks or the network, or awaits. Imports ``base``, ``kubelet.serve``,
``kubelet.types``, ``models``; start reading in ``log_query.py``.
"""

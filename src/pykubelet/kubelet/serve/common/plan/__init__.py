"""Decisions about requests: spelling of the target, kind of the request, query parameters.

Pure: no module here reads files, clocks or the network, or awaits. Imports ``base``, ``kubelet.serve``,
``kubelet.types``, ``models``; start reading in ``query.py``.
"""

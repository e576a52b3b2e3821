"""Decisions about logs: which file a request means, and what a client gets of its lines.

Pure: no module here reads files, clocks or the network, or awaits. Imports ``base``, ``kubelet.serve``,
``kubelet.types``, ``models``; start reading in ``log_choice.py``.
"""

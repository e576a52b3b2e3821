"""Decisions of PLEG: what has changed, what an event of the runtime leads to, and when the next list or check is due.

Pure: no module here reads files, clocks or the network, or awaits. Imports ``base``, ``kubelet.observe``,
``kubelet.types``; start reading in ``diff.py``.
"""

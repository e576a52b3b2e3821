"""Decisions of the event log: which events are combined, counted or dropped.

Pure: no module here reads files, clocks or the network, or awaits. Imports ``base``, ``kubelet.report``,
``kubelet.types``, ``models``; start reading in ``correlate.py``.
"""

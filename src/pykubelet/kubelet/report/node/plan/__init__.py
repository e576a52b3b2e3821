"""Decisions of the node reporter: the Node and CSINode objects, and events about conditions.

Pure: no module here reads files, clocks or the network, or awaits. Imports ``base``, ``kubelet.report``,
``kubelet.types``, ``models``; start reading in ``node_object.py``.
"""

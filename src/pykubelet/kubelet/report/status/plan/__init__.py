"""Decisions of the status manager: the status of a pod, its patch, when it is sent, and what is due.

Pure: no module here reads files, clocks or the network, or awaits. Imports ``base``, ``kubelet.report``,
``kubelet.types``, ``models``; start reading in ``containers.py``.
"""

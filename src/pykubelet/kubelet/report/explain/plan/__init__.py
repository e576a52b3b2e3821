"""The explanation of a pod's state. Pure: no module here reads files, clocks or the network, or awaits.

Imports ``base``, ``kubelet.report``, ``kubelet.types``, ``models``; start reading in ``explanation.py``.
"""

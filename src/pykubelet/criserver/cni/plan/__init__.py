"""The rules of the CNI specification. Pure: no module here reads files, clocks or the network, or awaits.

Imports ``base``, ``criserver.cni``; start reading in ``network_spec.py``.
"""

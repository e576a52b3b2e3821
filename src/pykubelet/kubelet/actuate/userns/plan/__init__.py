"""Id ranges of user namespaces. Pure: no module here reads files, clocks or the network, or awaits.

Imports ``base``, ``kubelet.actuate``, ``models``; start reading in ``id_ranges.py``.
"""

"""Names and settings of the cgroups of pods. Pure: no module here reads files, clocks or the network, or awaits.

Imports ``base``, ``kubelet.types``, ``linux``, ``models``; start reading in ``linux_resources.py``.
"""

"""Rules for CSI calls. Pure: no module here reads files, clocks or the network, or awaits.

Imports ``base``, ``kubelet.actuate``, ``kubelet.types``, ``models``, ``pb``; start reading in ``csi_rules.py``.
"""

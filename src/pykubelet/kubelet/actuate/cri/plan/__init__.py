"""Conversion of CRI messages. Pure: no module here reads files, clocks or the network, or awaits.

Imports ``kubelet.actuate``, ``kubelet.types``, ``models``, ``pb``; start reading in ``conversion.py``.
"""

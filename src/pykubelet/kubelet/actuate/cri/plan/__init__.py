"""Conversion of CRI messages. Pure: no module here reads files, clocks or the network, or awaits.

Imports ``base``, ``kubelet.actuate``, ``kubelet.types``, ``models``, ``pb``; start reading in ``conversion.py``.
"""

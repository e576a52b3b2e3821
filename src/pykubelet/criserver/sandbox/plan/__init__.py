"""Interpretation of sandbox requests. Pure: no module here reads files, clocks or the network, or awaits.

Imports ``base``, ``criserver.cni``, ``criserver.netns``, ``criserver.spec``, ``criserver.types``, ``models``, ``pb``;
start reading in ``requests.py``.
"""

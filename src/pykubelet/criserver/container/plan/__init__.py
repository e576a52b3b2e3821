"""The life cycle of a container. Pure: no module here reads files, clocks or the network, or awaits.

Imports ``base``, ``criserver.types``; start reading in ``lifecycle.py``.
"""

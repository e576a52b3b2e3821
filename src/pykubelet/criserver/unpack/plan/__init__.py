"""Maps of sparse files, and shares of memory. Pure: no module here reads files, clocks or the network, or awaits.

Imports ``base``, ``criserver.unpack``; start reading in ``sparse.py``.
"""

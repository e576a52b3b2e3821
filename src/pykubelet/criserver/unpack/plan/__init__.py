"""Maps of sparse files. Pure: no module here reads files, clocks or the network, or awaits.

Imports ``criserver.unpack``; start reading in ``sparse.py``.
"""

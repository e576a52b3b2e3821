"""Series of the metrics endpoints, computed from readings.

Pure: no module here reads files, clocks or the network, or awaits. Imports ``base``, ``kubelet.types``, ``models``;
start reading in ``cadvisor.py``.
"""

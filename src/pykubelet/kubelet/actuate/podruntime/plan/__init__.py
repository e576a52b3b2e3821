"""Decisions about a pod's containers: what to start, stop, restart, resize and remove.

Pure: no module here reads files, clocks or the network, or awaits. ``crashloop.py`` alone keeps something, the delays
of containers that exit again and again. Imports ``base``, ``kubelet.actuate``, ``kubelet.types``, ``linux``,
``models``; start reading in ``actions.py``.
"""

"""Decisions of probes: when each begins, and the conclusion from its results.

Pure: no module here reads files, clocks or the network, or awaits. Imports ``base``, ``kubelet.observe``,
``kubelet.types``, ``models``; start reading in ``probe_rules.py``.
"""

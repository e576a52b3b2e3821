"""Decisions about images: pull policy, credentials, names, and which images to remove.

Pure: no module here reads files, clocks or the network, or awaits. Imports ``base``, ``kubelet.actuate``,
``kubelet.types``, ``models``; start reading in ``pull_records.py``.
"""

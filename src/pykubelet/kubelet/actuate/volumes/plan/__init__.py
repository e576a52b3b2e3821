"""Decisions about volumes: claims, expansion, CSI migration, the files of a volume.

Pure: no module here reads files, clocks or the network, or awaits. Imports ``base``, ``kubelet.actuate``,
``kubelet.types``, ``models``; start reading in ``csi_migration.py``.
"""

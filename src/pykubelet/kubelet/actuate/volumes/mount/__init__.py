"""Mounting and unmounting of volumes: devices, sub-paths, remote volumes and their upkeep, teardown.

Functions that are not asynchronous block, and run in the threads of the volume manager. Start reading in
``teardown.py``, and in ``remote_volumes.py`` for volumes of file servers and CSI drivers. Imports beside it: ``csi``.
"""

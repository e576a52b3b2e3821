"""Mounting and unmounting of volumes: devices, sub-paths, remote volumes, ownership, teardown.

All functions block and run in the threads of the volume manager. Start reading in ``teardown.py``. Imports beside it:
``csi``.
"""

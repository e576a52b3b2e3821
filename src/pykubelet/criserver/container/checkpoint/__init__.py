"""Checkpoints of running containers (KEP-2008), in the archive format of containerd and CRI-O.

``checkpointer.py`` freezes a container, has the OCI runtime and CRIU write its processes, and packs the archive;
``archive.py`` writes the files. Start reading at ``checkpointer.py``. Imports beside it: ``state``.
"""

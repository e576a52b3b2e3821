"""Files of a created container on the machine: its root file system, mounts, devices, profile, and OCI bundle.

Images and the files of their users are not trusted. Start reading in ``bundle_maker.py``; ``prepare.py`` opens the
host's paths. Imports beside it: ``checkpoint``, ``state``.
"""

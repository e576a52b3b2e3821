"""Environment variables of a container: from the spec, files, services and the downward API.

Start reading in ``env.py``; the volume manager shares ``downward.py``. Imports no package beside it.
"""

"""Volume kinds that the node itself provides: one module for each, and what they share.

Each kind is an entry of the table in ``volumes/volume_manager.py``. Kinds whose content are files (ConfigMaps, Secrets,
the downward API, projected volumes) share ``content_volumes.py``, which writes them with ``atomic_writer.py``. Start
reading in ``empty_dir.py``. Imports beside it: ``plan``.
"""

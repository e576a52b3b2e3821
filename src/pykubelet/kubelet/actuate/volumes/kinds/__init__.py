"""Volume kinds whose content the agent makes itself: one module for each, and what they share.

Each kind is an entry of the table in ``volumes/volume_manager.py``. Start reading in ``empty_dir.py``. Imports beside
it: ``plan``.
"""

"""Reloads the configuration of the running agent: on SIGHUP, and when its files have changed.

Start reading in ``config_reloader.py``. What a change of a field needs is decided in ``config/plan``. Imports beside
it: ``config``, ``types``.
"""

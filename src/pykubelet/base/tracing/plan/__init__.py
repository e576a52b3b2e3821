"""Decisions about traces: which settings are valid. Start reading at ``trace_settings.py``.

Imports ``base``.
"""

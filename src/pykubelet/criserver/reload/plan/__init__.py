"""Decides what a new configuration changes. Pure.

Imports ``criserver.config``; start reading in ``reload_plan.py``.
"""

"""Connections of commands: the agent's local socket, streams through it, and a runtime's image services.

Start reading in ``local_api.py``. Imports no package beside it.
"""

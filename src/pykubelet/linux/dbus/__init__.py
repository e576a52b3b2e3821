"""D-Bus: the system's message bus, and logind on it. Start reading in ``logind.py``.

Imports no package beside it.
"""

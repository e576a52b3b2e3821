"""Commands in containers with a client's streams (Exec). Start reading at ``execute.py``.

Imports no package beside it.
"""

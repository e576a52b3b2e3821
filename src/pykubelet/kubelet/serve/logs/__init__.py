"""Container logs for clients: choose the file, read it, follow it, and format its lines.

Used by both servers. Start reading in ``log_response.py``. Imports beside it: ``common``.
"""

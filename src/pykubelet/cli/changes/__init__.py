"""Changes by commands: objects in the manifest directory, files on this machine; and waiting for the result.

Start reading in ``apply_files.py``. Imports beside it: ``arguments``, ``client``, ``output``, ``plan``.
"""

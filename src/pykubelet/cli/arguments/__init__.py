"""Arguments of commands: the objects that the user names, flags that several commands share, completion.

Start reading in ``targets.py``. Imports beside it: ``client``, ``plan``.
"""

"""State of the server's sandboxes: in memory, and in the records that survive it.

Every change of a record goes through ``records.py``: in the database first, then in memory. Start reading in
``table.py``, then ``sandbox_state.py``. Imports beside it: ``plan``.
"""

"""Output forms of kubectl computed from plain objects: JSONPath templates, custom columns, stable tables, suggestions.

Pure: no module here reads files, clocks, the network or the terminal. Start reading in ``jsonpath.py``. Imports
``base``, ``models``.
"""

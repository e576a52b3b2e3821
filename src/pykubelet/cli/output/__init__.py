"""Output of commands: tables, documents, changes as they happen, progress.

Start reading in ``output_form.py``. Imports beside it: ``arguments``, ``client``, ``plan``.
"""

"""The live view of ``pykubelet top -w`` and of ``make run``: pods with their usage, events and logs.

``plan/`` is pure: what is known (`live_model`), what is selected (`view_state`), and the lines of a screen
(`live_frame`, `log_frame`). Start reading in ``live_view.py``, which runs it on a terminal (`live_terminal`) with one
agent (`live_api`). Imports beside it: ``client``, ``plan``.
"""

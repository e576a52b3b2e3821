"""Concurrency in which no part of the process holds up another: threads, guards, supervision, wake-ups.

Start reading in ``blocking.py`` (calls that may hang), ``guard.py`` (loops over items), ``supervise.py`` (tasks) and
``shield.py`` (clean-up under cancellation). ``answer.py`` is what a task waits for. ``broadcast.py`` and
``watch_table.py`` publish to many readers, ``callbacks.py`` connects two components. Imports no package beside it.
"""

"""Which components take changes of the configuration while the agent runs, what a start checks, and its ports.

Start reading in ``live_parts.py``. Imports no package beside it.
"""

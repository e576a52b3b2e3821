"""Components that take changes of the configuration while the agent runs, the checks of a start, and its ports.

Start reading in ``live_parts.py``. Imports no package beside it.
"""

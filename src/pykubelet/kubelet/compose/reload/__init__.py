"""Which components take changes of the configuration while the agent runs. Start reading in ``live_parts.py``.

Imports no package beside it.
"""

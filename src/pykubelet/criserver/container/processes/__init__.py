"""The processes of a container: launched before the start, watched until the exit, killed and cleaned up after it.

Start reading in ``prelaunch.py``, then ``watch.py``; ``cleanup.py`` removes the leftovers.
Imports beside it: ``bundle``, ``plan``, ``state``.
"""

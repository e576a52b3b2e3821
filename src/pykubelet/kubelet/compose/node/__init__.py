"""State of the node, gathered from several stages: for admission, for the Node object, and for clients.

In standalone mode and in node mode. Start reading in ``node_status.py``. Imports no package beside it.
"""

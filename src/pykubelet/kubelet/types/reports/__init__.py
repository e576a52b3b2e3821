"""What the stages report about pods and the node: events, decisions, timelines, ends of containers, statuses, views.

Imports ``models`` and ``base``. Start reading in ``events.py`` and ``decisions.py``.
"""

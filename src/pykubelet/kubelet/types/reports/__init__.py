"""Reports of the stages about pods and the node: events, decisions, timelines, ends of containers, statuses, views.

Imports ``models`` and ``base``. Start reading in ``events.py`` and ``decisions.py``.
"""

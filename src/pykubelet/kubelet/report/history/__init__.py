"""The history: what survives a restart of the agent besides the pods themselves, in one bounded file.

Events, the times at which pods were started, timelines, and the ends of containers. Nothing waits for it: changes are
collected in memory and written in batches from a thread; without the file the agent runs on. Start reading in
``history.py``. Imports beside it: ``events``, ``timeline``.
"""

from pykubelet.kubelet.report.history.history import History, HistoryDeps
from pykubelet.kubelet.report.history.start_times import StartTimes

__all__ = ["History", "HistoryDeps", "StartTimes"]

"""Explanations: the journal of decisions about each pod, and what it says about the pod's present state.

The pure functions that decide return their reasons; the sync loop and the pods' workers record them here. Start reading
in ``journal.py``. Imports no package beside it.
"""

from pykubelet.kubelet.report.explain.journal import DecisionJournal
from pykubelet.kubelet.report.explain.plan.explanation import Situation, explain

__all__ = ["DecisionJournal", "Situation", "explain"]

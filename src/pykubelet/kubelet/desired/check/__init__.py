"""Checks of manifests before they run: against each other, and against the node that would run them.

``manifest.parse`` finds what is wrong within one object; this package finds what is wrong with several together:
objects that are defined twice, missing ConfigMaps, host ports that are taken, pods that admission would reject. Its
rules are those of ``admission/plan``, ``objects/plan`` and ``sources/plan``. All of it is pure. Called by ``cli``.
Start reading in ``plan/check.py``. Imports beside it: ``admission``, ``manifest``, ``objects``, ``sources``.
"""

from pykubelet.kubelet.desired.check.check_types import CheckFinding, CheckSource, Rule, Severity
from pykubelet.kubelet.desired.check.plan.check import check

__all__ = ["CheckFinding", "CheckSource", "Rule", "Severity", "check"]

"""Admission: whether a pod that a source brings may run on this node.

The sync loop asks for each pod that is new to it, before its worker is told. A pod that is turned away gets the phase
Failed and a reason, and is never started. ``decide.py`` has the rules in their order, ``decide_node.py`` selectors,
affinity and taints, ``decide_fit.py`` resources and ports, ``decide_preempt.py`` who makes room for a critical pod.
Pods that run may wish for another size: ``resizes.py`` and ``decide_resize.py``.
"""

from pykubelet.kubelet.desired.admission.manager import Admission, AdmissionDeps
from pykubelet.kubelet.desired.admission.types import NodeFacts

__all__ = ["Admission", "AdmissionDeps", "NodeFacts"]

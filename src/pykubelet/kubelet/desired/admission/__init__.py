"""Admission: whether a new pod may run on this node.

The sync loop calls it for each new pod, before the pod's worker starts. A rejected pod gets the phase Failed and a
reason, and is never started. ``decide.py`` has the rules in their order, ``decide_node.py`` selectors, affinity and
taints, ``decide_fit.py`` resources and ports, ``decide_preempt.py`` the selection of pods that a critical pod preempts;
``resizes.py`` and ``decide_resize.py`` are the in-place resize of pods. Imports no other stage. Start reading in
``manager.py``.
"""

from pykubelet.kubelet.desired.admission.manager import Admission, AdmissionDeps
from pykubelet.kubelet.desired.admission.types import NodeFacts

__all__ = ["Admission", "AdmissionDeps", "NodeFacts"]

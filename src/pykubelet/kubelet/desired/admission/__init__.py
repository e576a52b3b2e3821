"""Admission: whether a new pod may run on this node.

The sync loop calls it for each new pod, before the pod's worker starts. A rejected pod gets the phase Failed and a
reason, and is never started. ``plan/rules.py`` has the rules in their order (selectors, affinity and taints are in
``models/node_match.py``), ``plan/fit.py`` resources and ports, ``plan/preemption.py`` the selection of pods that a
critical pod preempts; ``resizes.py`` and ``plan/resize_order.py`` are the in-place resize of pods. Imports no other
stage. Start reading in ``admission_manager.py``.
"""

from pykubelet.kubelet.desired.admission.admission_manager import Admission, AdmissionDeps
from pykubelet.kubelet.desired.admission.admission_types import NodeProperties

__all__ = ["Admission", "AdmissionDeps", "NodeProperties"]

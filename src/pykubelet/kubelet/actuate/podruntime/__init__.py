"""Pod runtime: creates, starts, stops and removes the sandboxes and containers of pods through CRI.

Contains container restarts and back-off, lifecycle hooks, in-place resize, log directories and garbage collection.
``decide*.py`` are pure and compute the actions; the other modules carry them out. Pod workers call
:class:`PodRuntime`; PLEG and housekeeping list pods through it.

May import ``actuate/criconfig``, ``actuate/cri`` (errors) and ``kubelet/types``; the managers of images, volumes,
cgroups and user namespaces are used through the protocols in ``interfaces.py``.
Start reading at ``PodRuntime.sync_pod`` in ``manager.py`` and ``compute_pod_actions`` in ``decide.py``.
"""

from pykubelet.kubelet.actuate.podruntime.decide import compute_pod_actions
from pykubelet.kubelet.actuate.podruntime.decide_gc import GcPolicy
from pykubelet.kubelet.actuate.podruntime.interfaces import PodInputs, PodRuntimeDeps
from pykubelet.kubelet.actuate.podruntime.manager import PodRuntime
from pykubelet.kubelet.actuate.podruntime.types import PodActions, PodRuntimeConfig

__all__ = [
    "GcPolicy",
    "PodActions",
    "PodInputs",
    "PodRuntime",
    "PodRuntimeConfig",
    "PodRuntimeDeps",
    "compute_pod_actions",
]

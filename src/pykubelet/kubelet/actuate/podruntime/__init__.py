"""Pod runtime: creates, starts, stops and removes the sandboxes and containers of pods through CRI.

Contains container restarts and back-off, lifecycle hooks, in-place resize, log directories and garbage collection.
``plan/`` is pure and computes the actions; the other modules carry them out. Pod workers call
:class:`PodRuntime`; PLEG and housekeeping list pods through it.

Imports of this stage: ``cgroups``, ``cri``, ``cri_messages``. The managers of images, volumes, cgroups and user
namespaces are used through the protocols in ``podruntime_interfaces.py``. Start reading at ``PodRuntime.sync_pod``
in ``pod_runtime.py`` and ``compute_pod_actions`` in ``plan/actions.py``.
"""

from pykubelet.kubelet.actuate.podruntime.plan.actions import compute_pod_actions
from pykubelet.kubelet.actuate.podruntime.plan.removals import ContainerGcPolicy
from pykubelet.kubelet.actuate.podruntime.pod_runtime import PodRuntime
from pykubelet.kubelet.actuate.podruntime.podruntime_interfaces import PodInputs, PodRuntimeDeps
from pykubelet.kubelet.actuate.podruntime.podruntime_types import PodActions, PodRuntimeConfig

__all__ = [
    "ContainerGcPolicy",
    "PodActions",
    "PodInputs",
    "PodRuntime",
    "PodRuntimeConfig",
    "PodRuntimeDeps",
    "compute_pod_actions",
]

"""Runs pods on a container runtime: the heart of the agent.

Owns sandboxes and containers, their restarts, hooks, logs and garbage. The pod workers call :class:`PodRuntime`;
PLEG and housekeeping list through it. What to do is decided in ``decide*.py``, which are pure; everything else does it.
"""

from pykubelet.kubelet.actuate.podruntime.decide import compute_pod_actions
from pykubelet.kubelet.actuate.podruntime.decide_gc import GcPolicy
from pykubelet.kubelet.actuate.podruntime.manager import PodRuntime
from pykubelet.kubelet.actuate.podruntime.ports import HttpRequest, PodRuntimeDeps
from pykubelet.kubelet.actuate.podruntime.types import PodActions, PodRuntimeConfig

__all__ = [
    "GcPolicy",
    "HttpRequest",
    "PodActions",
    "PodRuntime",
    "PodRuntimeConfig",
    "PodRuntimeDeps",
    "compute_pod_actions",
]

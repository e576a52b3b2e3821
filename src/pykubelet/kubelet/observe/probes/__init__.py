"""Startup, liveness and readiness probes of containers.

There is a worker per probe of each running container, which keeps the probe's conclusion. The pods' workers
(control/workers) pass the running containers and read the conclusions; a changed conclusion wakes the pod's worker,
which restarts the container or reports it ready. Imports no other stage. Start reading in `probe_manager.py`.
"""

from pykubelet.kubelet.observe.probes.probe_handlers import ProbeHandlers
from pykubelet.kubelet.observe.probes.probe_interfaces import ProbeDeps, ProbeMetrics, Prober
from pykubelet.kubelet.observe.probes.probe_manager import ProbeManager
from pykubelet.kubelet.observe.probes.probe_types import ExecResult, ProbeObservation, ProbeTarget, ProbeVerdict

__all__ = [
    "ExecResult",
    "ProbeDeps",
    "ProbeHandlers",
    "ProbeManager",
    "ProbeMetrics",
    "ProbeObservation",
    "ProbeTarget",
    "ProbeVerdict",
    "Prober",
]

"""Probes: asks containers whether they have started, live and are ready.

It owns a worker per probe of each running container and their conclusions. The pods' workers (control/workers) tell it
which containers run and read the conclusions; a conclusion that changes wakes the pod's worker, which restarts the
container or reports it ready. Next on the pod's way: control/workers, then report/status.
"""

from pykubelet.kubelet.observe.probes.handlers import ProbeHandlers
from pykubelet.kubelet.observe.probes.interfaces import NoMetrics, ProbeDeps, ProbeMetrics, Prober
from pykubelet.kubelet.observe.probes.manager import ProbeManager
from pykubelet.kubelet.observe.probes.types import ExecResult, Observation, Target, Verdict

__all__ = [
    "ExecResult",
    "NoMetrics",
    "Observation",
    "ProbeDeps",
    "ProbeHandlers",
    "ProbeManager",
    "ProbeMetrics",
    "Prober",
    "Target",
    "Verdict",
]

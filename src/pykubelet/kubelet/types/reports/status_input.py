"""`StatusInput`: what a pod's worker hands to the status manager."""

from collections.abc import Mapping

from msgspec import Struct

from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.kubelet.types.outcome import Failure
from pykubelet.kubelet.types.probes import ContainerProbes
from pykubelet.kubelet.types.runtime import PodRuntimeStatus


class StatusInput(Struct, frozen=True):
    """Input of the computation of a pod's API status: what the pod's worker knows when it reports."""

    runtime: PodRuntimeStatus
    """The runtime's view of the pod, read just now."""
    probes: Mapping[ContainerID, ContainerProbes]
    """Results of the probes."""
    failures: tuple[Failure, ...] = ()
    """Errors of the last sync."""
    terminating: bool = False
    """Whether the pod is being stopped or has been."""
    stopped: bool = False
    """Whether no container of the pod can run any more: they have been stopped, and none will be started."""
    terminal_reason: str = ""
    """The reason why the agent itself ended the pod; empty if it did not."""
    terminal_message: str = ""
    """The message for that reason."""
    disruption_reason: str = ""
    """The reason why the agent ended the pod for the node's sake; empty if it did not, or the pod exceeded its own
    limits."""
    disruption_message: str = ""
    """The message for that reason."""

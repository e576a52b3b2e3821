"""Interfaces that the status manager needs from others."""

from collections.abc import Mapping
from typing import Protocol

from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.kubelet.types.outcome import Failure
from pykubelet.kubelet.types.probes import ContainerProbes
from pykubelet.kubelet.types.runtime import PodRuntimeStatus


class StatusSource(Protocol):
    """What a pod's worker knows when it reports."""

    @property
    def runtime(self) -> PodRuntimeStatus:
        """The runtime's view of the pod, read just now."""

    @property
    def probes(self) -> Mapping[ContainerID, ContainerProbes]:
        """Results of the probes."""

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Errors of the last sync."""

    @property
    def terminating(self) -> bool:
        """Whether the pod is being stopped or has been."""

    @property
    def terminal_reason(self) -> str:
        """The reason why the agent itself ended the pod; empty if it did not."""

    @property
    def terminal_message(self) -> str:
        """The message for that reason."""


class NodeFacts(Protocol):
    """Facts about this node that statuses include."""

    @property
    def host_ips(self) -> tuple[str, ...]:
        """Return the node's addresses, primary first, at most one per family."""

    @property
    def runtime_name(self) -> str:
        """Return the runtime's name as it reports it (``containerd``, ``cri-o``)."""

    def recursive_read_only(self, handler: str | None) -> bool:
        """Return whether a runtime handler (None: the default one) supports recursive read-only mounts."""

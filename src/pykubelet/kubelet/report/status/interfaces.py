"""What the status manager needs of others."""

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
        """The runtime's view, read just now."""

    @property
    def probes(self) -> Mapping[ContainerID, ContainerProbes]:
        """Conclusions of the probes."""

    @property
    def failures(self) -> tuple[Failure, ...]:
        """What kept the last sync from succeeding."""

    @property
    def terminating(self) -> bool:
        """The pod is being stopped or has been."""

    @property
    def terminal_reason(self) -> str:
        """Why the agent itself ended the pod; empty if it did not."""

    @property
    def terminal_message(self) -> str:
        """The same for people."""


class NodeFacts(Protocol):
    """Facts about this node that statuses repeat."""

    @property
    def host_ips(self) -> tuple[str, ...]:
        """The node's addresses, primary first, at most one per family."""

    @property
    def runtime_name(self) -> str:
        """The runtime's own name (``containerd``, ``cri-o``)."""

    def recursive_read_only(self, handler: str | None) -> bool:
        """Whether that runtime handler (None: the default one) can mount recursively read-only."""

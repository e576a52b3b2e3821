"""Interfaces that the status manager needs from others."""

from typing import Protocol

from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.ids import PodUID


class StatusNode(Protocol):
    """Facts about this node that statuses include."""

    @property
    def host_ips(self) -> tuple[str, ...]:
        """Return the node's addresses, primary first, at most one per family."""

    @property
    def runtime_name(self) -> str:
        """Return the runtime's name as it reports it (``containerd``, ``cri-o``)."""

    def recursive_read_only(self, handler: str | None) -> bool:
        """Return whether a runtime handler (None: the default one) supports recursive read-only mounts."""


class StartTimes(Protocol):
    """The times at which pods were started first, also in an earlier run of the agent."""

    def get(self, uid: PodUID) -> Seconds | None:
        """Return the Unix time of the pod's first start; None: it is new."""

    def forget(self, uid: PodUID) -> None:
        """Forget a pod that was removed. Idempotent."""

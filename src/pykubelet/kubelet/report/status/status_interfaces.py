"""Interfaces that the status manager needs from others."""

from typing import Protocol


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

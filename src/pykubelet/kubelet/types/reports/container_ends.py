"""The ends of a pod's containers, as the restart history keeps them."""

from msgspec import Struct


class ContainerEnd(Struct, frozen=True, kw_only=True, rename="camel"):
    """One container that has ended. Times are Unix seconds; 0: unknown."""

    container: str
    container_id: str
    """With the runtime's name as its prefix; empty: unknown."""
    exit_code: int
    reason: str
    """As in the container's status: ``Error``, ``OOMKilled``, ``Completed`` …"""
    started_at: float
    finished_at: float

    @property
    def key(self) -> str:
        """The key that distinguishes it from the other ends of its pod."""
        return f"{self.container}/{self.container_id or self.finished_at}"

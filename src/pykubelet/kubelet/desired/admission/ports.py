"""What admission needs of others."""

from typing import Protocol


class Meter(Protocol):
    """The reference's metrics of admission."""

    def admission_rejected(self, reason: str) -> None:
        """A pod was turned away."""

    def preempted(self, signal: str) -> None:
        """A pod was pushed out for want of a resource."""

"""What admission needs of others."""

from typing import Protocol


class Meter(Protocol):
    """The reference's metrics of admission."""

    def admission_rejected(self, reason: str) -> None:
        """A pod was turned away."""

    def preempted(self, signal: str) -> None:
        """A pod was pushed out for want of a resource."""

    def resize_accepted(self, trigger: str) -> None:
        """A pod was given a size that it had to wait for, when that had the node look again."""

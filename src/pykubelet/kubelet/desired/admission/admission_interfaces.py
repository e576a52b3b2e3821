"""Interfaces of the other stages that admission calls."""

from typing import Protocol


class Meter(Protocol):
    """Metrics of admission, as the Go kubelet has them."""

    def admission_rejected(self, reason: str) -> None:
        """Count a rejected pod."""

    def preempted(self, signal: str) -> None:
        """Count a pod that was preempted for a resource."""

    def resize_accepted(self, trigger: str) -> None:
        """Count a deferred resize that was allocated, by the trigger of the retry."""

"""Interfaces of the other stages that the eviction of pods calls."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.eviction.eviction_types import Observation, Signal
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.stats import Summary
from pykubelet.models.core_v1 import Pod


class Observer(Protocol):
    """The reader of the machine's signals."""

    async def read(self) -> dict[Signal, Observation]:
        """Return the signals that can be read now."""


class Workers(Protocol):
    """The pod workers."""

    def active(self) -> Iterable[Pod]:
        """Return the pods that run and are not being terminated."""

    def fail(self, uid: PodUID, reason: str, message: str, grace_seconds: int | None = None) -> None:
        """Stop the pod and fail it with this reason."""

    def ended(self, uid: PodUID) -> bool:
        """Whether no container of the pod runs any more."""


class Reclaimer(Protocol):
    """The reclaim of disk space without evictions."""

    async def reclaim(self) -> None:
        """Remove dead containers and unused images. Raises base errors."""


class EvictionMetrics(Protocol):
    """Metrics of evictions, as the Go kubelet has them."""

    def evicted(self, signal: str) -> None:
        """Count an eviction by its signal."""

    def eviction_decided(self, signal: str, age: Seconds) -> None:
        """Record, when a pod is selected, the age of the figures in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionDeps:
    """Dependencies of `EvictionManager`."""

    observer: Observer
    usage: Callable[[], Awaitable[Summary]]
    """Measures the usage of pods; expensive, so it is called only when needed."""
    workers: Workers
    reclaimer: Reclaimer
    telemetry: Telemetry[EvictionMetrics]

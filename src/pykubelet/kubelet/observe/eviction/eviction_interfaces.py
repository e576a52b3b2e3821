"""Interfaces of the other stages that the eviction of pods calls."""

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from msgspec import Struct

from pykubelet.base.units import Bytes, Seconds
from pykubelet.kubelet.observe.eviction.eviction_types import Disks, Reclaim, Signal, SignalObservation
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.resources.stats import Summary
from pykubelet.models.core_v1 import Pod


class Observer(Protocol):
    """The reader of the machine's signals."""

    async def read(self) -> dict[Signal, SignalObservation]:
        """Return the signals that can be read now."""

    async def read_memory(self) -> dict[Signal, SignalObservation]:
        """Return the signals of memory only, which is cheap."""

    def disks(self) -> Disks:
        """Return which file systems the node had at the last ``read``."""


class Usage(Protocol):
    """The measurement of the pods' usage, which is expensive."""

    async def __call__(
        self, *, only_cpu_and_memory: bool = False, max_age: Seconds | None = None, rates: bool = True
    ) -> Summary:
        """Return figures not older than ``max_age`` seconds (None: as old as those of other clients).

        ``rates``: with the CPU usage of pods that have just started, which takes a quarter of a second.
        """


class Alarm(Protocol):
    """The kernel's notifications about memory."""

    async def arm(self, growth: Mapping[Signal, tuple[Bytes, ...]]) -> None:
        """Have the kernel notify when the usage behind a signal has grown by one of these numbers of bytes."""

    async def wait(self, seconds: Seconds) -> bool:
        """Return True when the kernel has notified, False after this time."""

    def close(self) -> None:
        """End the notifications."""


class Workers(Protocol):
    """The pod workers."""

    def evictable(self, grace_seconds: int) -> Iterable[Pod]:
        """Return the pods that would end sooner if they were evicted with this grace period."""

    def fail(
        self, uid: PodUID, reason: str, message: str, grace_seconds: int | None = None, *, disrupts: bool = True
    ) -> None:
        """Stop the pod and fail it with this reason; ``disrupts``: with the condition DisruptionTarget."""

    def ended(self, uid: PodUID) -> bool:
        """Whether no container of the pod runs any more."""


class Reclaimer(Protocol):
    """The reclaim of disk space without evictions."""

    async def reclaim(self, what: Collection[Reclaim]) -> None:
        """Remove dead containers, unused images, or both. Raises base errors."""


class EvictionMetrics(Protocol):
    """Metrics of evictions, as the Go kubelet has them."""

    def evicted(self, signal: str) -> None:
        """Count an eviction by its signal."""

    def eviction_decided(self, signal: str, age: Seconds) -> None:
        """Record, when a pod is selected, the age of the figures in seconds."""


class EvictionDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of `EvictionManager`."""

    observer: Observer
    usage: Usage
    alarm: Alarm
    workers: Workers
    reclaimer: Reclaimer
    telemetry: Telemetry[EvictionMetrics]

"""What pressure needs of others."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.pressure.types import Observation, Signal
from pykubelet.kubelet.types.events import EventRecorder
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.stats import Summary
from pykubelet.models.core_v1 import Pod


class Observer(Protocol):
    """Reads the machine."""

    async def read(self) -> dict[Signal, Observation]:
        """The signals that can be read now."""


class Workers(Protocol):
    """The pod workers."""

    def active(self) -> Iterable[Pod]:
        """Pods that run, and are not on their way out."""

    def fail(self, uid: PodUID, reason: str, message: str, grace_seconds: int | None = None) -> None:
        """End the pod for the node's sake."""

    def ended(self, uid: PodUID) -> bool:
        """Whether no container of the pod runs any more."""


class Reclaimer(Protocol):
    """Frees disk space without ending pods."""

    async def reclaim(self) -> None:
        """Remove dead containers and unused images. Raises base errors."""


@dataclass(frozen=True, slots=True)
class PressureDeps:
    """What pressure sees and acts through."""

    observer: Observer
    usage: Callable[[], Awaitable[Summary]]
    """What pods use; dear, so it is asked for only when it matters."""
    workers: Workers
    reclaimer: Reclaimer
    events: EventRecorder
    clock: Clock
    evicted: Callable[[str], None]
    """Counts an eviction by its signal."""
    decided: Callable[[str, Seconds], None] = lambda signal, age: None
    """Told how old the figures were by which a pod was chosen, by signal."""

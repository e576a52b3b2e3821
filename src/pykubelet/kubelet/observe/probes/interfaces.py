"""What the probe manager needs of others; handed to it by ``kubelet/main.py``."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.probes.types import ExecResult, Observation, Target
from pykubelet.kubelet.types.events import EventRecorder
from pykubelet.kubelet.types.ids import ContainerID, PodRef
from pykubelet.kubelet.types.probes import ProbeType, ProbeUpdate

ExecSync: TypeAlias = Callable[[ContainerID, Sequence[str], Seconds], Awaitable[ExecResult]]
"""Runs a command in a container for that many seconds at most. Raises ``TimeoutError`` when it took longer, an error of
``base.errors`` when it could not be run."""


class Prober(Protocol):
    """Makes a probe; `ProbeHandlers` is the real one."""

    async def probe(self, target: Target) -> Observation:
        """The result within the probe's timeout; never raises for anything the container does."""

    async def close(self) -> None:
        """Give back what is open."""


class ProbeMetrics(Protocol):
    """The reference's metrics of probes."""

    def probe(self, ref: PodRef, container: str, probe_type: ProbeType, result: str, seconds: Seconds) -> None:
        """``prober_probe_total`` by ``result`` (successful, failed, unknown) and ``prober_probe_duration_seconds``
        (which the reference does not observe for failed ones)."""

    def forget(self, ref: PodRef, container: str, probe_type: ProbeType) -> None:
        """The container is no longer probed: drop its series."""


class NoMetrics:
    """Reports to nobody."""

    def probe(self, ref: PodRef, container: str, probe_type: ProbeType, result: str, seconds: Seconds) -> None: ...

    def forget(self, ref: PodRef, container: str, probe_type: ProbeType) -> None: ...


@dataclass(frozen=True, slots=True)
class ProbeDeps:
    """All that the probe manager acts through."""

    prober: Prober
    on_change: Callable[[ProbeUpdate], None]
    """A conclusion changed. Must not block and not fail."""
    events: EventRecorder
    metrics: ProbeMetrics
    clock: Clock
    host_ips: Callable[[], tuple[str, ...]]
    """The node's addresses, primary first: where containers in the host's network are probed."""

"""Interfaces of the other stages that the probes call; ``kubelet/compose/observe.py`` passes them."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct

from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.probes.probe_types import ExecResult, ProbeObservation, ProbeTarget
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import ContainerID, PodRef
from pykubelet.kubelet.types.probes import ProbeType, ProbeUpdate

ExecSync: TypeAlias = Callable[[ContainerID, Sequence[str], Seconds], Awaitable[ExecResult]]
"""Runs a command in a container with a timeout in seconds. Raises ``TimeoutError`` after the timeout, and an error of
``base.errors`` if the command could not be run."""


class Prober(Protocol):
    """The execution of probes, implemented by `ProbeHandlers`."""

    async def probe(self, target: ProbeTarget) -> ProbeObservation:
        """Return the result within the probe's timeout; never raises because of the container's behaviour."""

    async def close(self) -> None:
        """Close open connections."""


class ProbeMetrics(Protocol):
    """Metrics of probes, as the Go kubelet has them."""

    def probe(self, ref: PodRef, container: str, probe_type: ProbeType, result: str, seconds: Seconds) -> None:
        """``prober_probe_total`` by ``result`` (successful, failed, unknown) and ``prober_probe_duration_seconds``
        (which the Go kubelet does not observe for failed ones)."""


class ProbeDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of the probe manager."""

    prober: Prober
    on_change: Callable[[ProbeUpdate], None]
    """Called with a changed conclusion; must not block or raise."""
    telemetry: Telemetry[ProbeMetrics]
    host_ips: Callable[[], tuple[str, ...]]
    """Returns the node's addresses, primary first, at which containers in the host's network are probed."""

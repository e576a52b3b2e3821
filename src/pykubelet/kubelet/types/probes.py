"""Probe results, as the stages exchange them."""

from enum import StrEnum

from msgspec import Struct

from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.ids import ContainerID, PodUID
from pykubelet.kubelet.types.reports.decisions import Decision, Topic


class ProbeType(StrEnum):
    """The three kinds of probe."""

    STARTUP = "Startup"
    LIVENESS = "Liveness"
    READINESS = "Readiness"


class ProbeResult(StrEnum):
    """Result of a probe after its thresholds."""

    SUCCESS = "success"
    FAILURE = "failure"
    UNKNOWN = "unknown"


class ProbeUpdate(Struct, frozen=True):
    """An event: a probe's result has changed, so the pod's worker should sync."""

    uid: PodUID
    container_id: ContainerID
    probe_type: ProbeType
    result: ProbeResult
    container: str = ""
    message: str = ""
    """The last answer, for a failure."""

    @property
    def decision(self) -> Decision:
        """The conclusion as a decision for the journal."""
        action = f"{self.probe_type.lower()}: {self.result}"
        return Decision(Topic.PROBE, self.container, action, "the probe's threshold was reached", self.message)


class ProbeReport(Struct, frozen=True, kw_only=True):
    """The state of one probe of a container."""

    container: str
    probe_type: ProbeType
    conclusion: ProbeResult | None
    """None: unknown."""
    last: ProbeResult | None
    """Result of the last try; None: none has ended yet."""
    run: int
    """Number of consecutive results equal to ``last``."""
    failure_threshold: int
    message: str = ""
    """The last answer, if it was a failure."""
    error: str = ""
    """The reason why the last try could not be made; empty: it was."""
    at: Seconds = 0.0
    """Unix time of the last try; 0: none has ended yet."""


class ContainerProbes(Struct, frozen=True):
    """Probe results of a running container; None: no such probe, or no result yet."""

    startup: ProbeResult | None = None
    liveness: ProbeResult | None = None
    readiness: ProbeResult | None = None

"""Probe results, as the stages exchange them."""

from dataclasses import dataclass
from enum import StrEnum

from pykubelet.kubelet.types.ids import ContainerID, PodUID


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


@dataclass(frozen=True, slots=True)
class ProbeUpdate:
    """An event: a probe's result has changed, so the pod's worker should sync."""

    uid: PodUID
    container_id: ContainerID
    probe_type: ProbeType
    result: ProbeResult


@dataclass(frozen=True, slots=True)
class ContainerProbes:
    """Probe results of a running container; None: no such probe, or no result yet."""

    startup: ProbeResult | None = None
    liveness: ProbeResult | None = None
    readiness: ProbeResult | None = None

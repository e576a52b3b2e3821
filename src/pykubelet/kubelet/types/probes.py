"""Probe results as control, actuate and report see them."""

from dataclasses import dataclass
from enum import StrEnum

from pykubelet.kubelet.types.ids import ContainerID, PodUID


class ProbeType(StrEnum):
    """The three kinds of probe."""

    STARTUP = "Startup"
    LIVENESS = "Liveness"
    READINESS = "Readiness"


class ProbeResult(StrEnum):
    """What a probe has concluded after its thresholds."""

    SUCCESS = "success"
    FAILURE = "failure"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ProbeUpdate:
    """A probe's conclusion changed: the pod's worker should look again."""

    uid: PodUID
    container_id: ContainerID
    probe_type: ProbeType
    result: ProbeResult


@dataclass(frozen=True, slots=True)
class ContainerProbes:
    """Conclusions for one running container; None where it has no such probe (or no result yet)."""

    startup: ProbeResult | None = None
    liveness: ProbeResult | None = None
    readiness: ProbeResult | None = None

"""What is probed, and what one probe found."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.ids import ContainerID, PodRef
from pykubelet.kubelet.types.probes import ProbeType
from pykubelet.models.core_v1 import Container, Probe


class ProbeKey(NamedTuple):
    """Names one probe. A restarted container has a new id, and so begins anew."""

    container_id: ContainerID
    probe_type: ProbeType


@dataclass(frozen=True, slots=True)
class Target:
    """One probe of one running container."""

    ref: PodRef
    container: Container
    container_id: ContainerID
    probe_type: ProbeType
    probe: Probe
    pod_ip: str
    """The pod's primary address, the node's for pods in the host's network; empty while there is none."""
    started_at: Seconds
    """When the container was started, Unix time."""
    was_started: bool = False
    """The API server remembers that this container passed its startup probe (under an agent before us)."""

    @property
    def key(self) -> ProbeKey:
        return ProbeKey(self.container_id, self.probe_type)


@dataclass(frozen=True, slots=True)
class Timing:
    """Pace and thresholds of a probe. Seconds may be fractions, though the API has none so far."""

    initial_delay: Seconds
    period: Seconds
    timeout: Seconds
    success_threshold: int
    failure_threshold: int


class Verdict(StrEnum):
    """What one probe found."""

    SUCCESS = "success"
    WARNING = "warning"
    """A success that somebody should look at."""
    FAILURE = "failure"
    ERROR = "unknown"
    """The probe could not be made; says nothing about the container. Named as in the reference's events."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The result of one probe; the message is for the event, and empty for a success."""

    verdict: Verdict
    message: str = ""


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What a command in a container came to."""

    exit_code: int
    stdout: bytes = b""
    stderr: bytes = b""

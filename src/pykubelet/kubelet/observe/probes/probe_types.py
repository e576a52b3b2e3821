"""Targets and results of probes."""

from enum import StrEnum
from functools import cached_property
from typing import Final, NamedTuple

from msgspec import Struct

from pykubelet.base.errors import Invalid
from pykubelet.base.expand import expand_all
from pykubelet.base.units import KIB, Seconds
from pykubelet.kubelet.types.ids import ContainerID, PodRef
from pykubelet.kubelet.types.probes import ProbeType
from pykubelet.models.core_v1 import Container, Probe

_MOST_ADDED: Final = 64 * KIB
"""Characters that variables may add to the command of a probe, which is kept; a pod may have hundreds of probes."""


class ProbeKey(NamedTuple):
    """Key of a probe. A restarted container has a new id, and so a new probe."""

    container_id: ContainerID
    probe_type: ProbeType


class ProbeTarget(Struct, frozen=True, dict=True):
    """A probe of a running container."""

    ref: PodRef
    container: Container
    container_id: ContainerID
    probe_type: ProbeType
    probe: Probe
    pod_ip: str
    """The pod's primary address, or the node's for pods in the host's network; empty while the pod has none."""
    started_at: Seconds
    """Start of the container, Unix time."""
    was_started: bool = False
    """The pod's status records that this container passed its startup probe, in an earlier run of the agent."""

    @property
    def key(self) -> ProbeKey:
        return ProbeKey(self.container_id, self.probe_type)

    @cached_property
    def command(self) -> tuple[str, ...] | str:
        """The command of an exec probe with the container's variables; the error if it is too long.

        Expanded once: it may have hundreds of thousands of references, and run every second.
        """
        words = self.probe.exec.command if self.probe.exec is not None else ()
        variables = {each.name: each.value or "" for each in self.container.env}
        try:
            return expand_all(words, variables, sum(map(len, words)) + _MOST_ADDED)
        except Invalid as error:
            return str(error)


class Timing(Struct, frozen=True):
    """Periods and thresholds of a probe. Seconds may be fractions, although the API has only integers so far."""

    initial_delay: Seconds
    period: Seconds
    timeout: Seconds
    success_threshold: int
    failure_threshold: int


class ProbeVerdict(StrEnum):
    """Result of one execution of a probe."""

    SUCCESS = "success"
    WARNING = "warning"
    """A success with a warning event."""
    FAILURE = "failure"
    ERROR = "unknown"
    """The probe could not be run, so the container's state is unknown. Named as in events of the Go kubelet."""


class ProbeObservation(Struct, frozen=True):
    """The result of a probe; the message is for the event, and empty for a success."""

    verdict: ProbeVerdict
    message: str = ""


class ExecResult(Struct, frozen=True):
    """Result of a command in a container."""

    exit_code: int
    stdout: bytes = b""
    stderr: bytes = b""

"""What the pod workers need of the other stages."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pykubelet.base.clock import Clock
from pykubelet.base.journal import Journal
from pykubelet.base.moments import Moments
from pykubelet.kubelet.types.events import EventRecorder
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID
from pykubelet.kubelet.types.outcome import Failure, Outcome, Prepared
from pykubelet.kubelet.types.probes import ContainerProbes
from pykubelet.kubelet.types.runtime import PodRuntimeStatus, RuntimeConditions
from pykubelet.kubelet.types.timeline import Timeline
from pykubelet.models.core_v1 import Pod, PodStatus


class Runtime(Protocol):
    """The pod runtime (actuate/podruntime)."""

    async def pod_status(self, ref: PodRef) -> PodRuntimeStatus:
        """Everything the runtime has of the pod, read now."""

    async def sync_pod(
        self,
        pod: Pod,
        status: PodRuntimeStatus,
        probes: Mapping[ContainerID, ContainerProbes],
        prepared: Prepared,
    ) -> Outcome:
        """One pass of making the pod run as wanted; what is left to prepare is done before containers are made."""

    async def kill_pod(
        self, ref: PodRef, pod: Pod | None, status: PodRuntimeStatus, grace_seconds: int | None
    ) -> Outcome:
        """Stop all containers and sandboxes of the pod."""

    async def remove_pod(self, ref: PodRef) -> None:
        """Remove all containers, sandboxes and logs of a stopped pod."""


class Resources(Protocol):
    """What a pod holds on the node beside its containers (volumes, cgroup, directories)."""

    async def prepare(self, pod: Pod, status: PodRuntimeStatus) -> Prepared:
        """Make or refresh cgroup, directories and volumes; failures name what could not be made."""

    async def release(self, uid: PodUID) -> None:
        """Give all of it back; raises when something is still held. Repeatable."""

    async def forget(self, uid: PodUID) -> None:
        """Remove the pod's directory. Repeatable."""


class Probes(Protocol):
    """The probe manager (observe/probes)."""

    def sync_pod(self, pod: Pod, status: PodRuntimeStatus) -> None:
        """Probe exactly the containers that run."""

    def results(self, status: PodRuntimeStatus) -> Mapping[ContainerID, ContainerProbes]:
        """Today's conclusions, by container."""

    def stop_all_but_readiness(self, uid: PodUID) -> None:
        """The pod is being stopped: its death is no failure."""

    def remove_pod(self, uid: PodUID) -> None:
        """Forget the pod."""


@dataclass(frozen=True, slots=True)
class StatusInput:
    """What a pod's API status is computed from."""

    runtime: PodRuntimeStatus
    probes: Mapping[ContainerID, ContainerProbes]
    failures: tuple[Failure, ...] = ()
    terminating: bool = False
    terminal_reason: str = ""
    terminal_message: str = ""


class Status(Protocol):
    """The status manager (report/status)."""

    def update(self, pod: Pod, source: StatusInput) -> PodStatus:
        """Compute, keep and return the pod's status."""

    def reject(self, pod: Pod, reason: str, message: str) -> PodStatus:
        """Keep the final status of a pod that was not admitted."""

    def terminate(self, pod: Pod) -> PodStatus:
        """Nothing of the pod runs any more: complete its last status."""

    def remove(self, uid: PodUID) -> None:
        """Forget the pod."""


class Meter(Protocol):
    """The reference's metrics of pod workers."""

    def worker_started(self, seconds: float) -> None:
        """A worker took its pod up, so long after it was handed over."""

    def worker_duration(self, operation: str, seconds: float) -> None:
        """A step was taken: ``create`` (the first), ``sync``, or ``terminate``."""

    def pod_restarted(self, *, static: bool) -> None:
        """A pod came back under its uid while it was being stopped."""

    def pod_orphaned(self) -> None:
        """The runtime has a pod that nobody wants."""


@dataclass(frozen=True, slots=True)
class WorkerDeps:
    """All that a worker acts through."""

    runtime: Runtime
    resources: Resources
    probes: Probes
    status: Status
    events: EventRecorder
    timeline: Timeline
    clock: Clock
    conditions: "Conditions"
    journal: Journal
    meter: Meter
    watch_closely: Callable[[PodUID], None]
    """Tells PLEG that the pod was changed, so that it looks soon where the runtime sends no events."""
    moments: Moments = field(init=False)
    """When pods have started, by uid."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "moments", Moments(self.clock))


class Conditions(Protocol):
    """The runtime's health as last seen (observe/runtimehealth)."""

    def current(self) -> RuntimeConditions:
        """The last answer of the runtime to a Status call."""

    def known(self) -> bool:
        """Whether the runtime has answered at all since the agent was started."""

"""Interfaces of the other stages that the pod workers call."""

from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct

from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID
from pykubelet.kubelet.types.outcome import Outcome, PreparationResult
from pykubelet.kubelet.types.probes import ContainerProbes
from pykubelet.kubelet.types.reports.decisions import DecisionRecorder
from pykubelet.kubelet.types.reports.status_input import StatusInput
from pykubelet.kubelet.types.runtime import PodRuntimeStatus, RuntimeConditions, SandboxStatus
from pykubelet.models.core_v1 import Pod, PodStatus


class Runtime(Protocol):
    """The pod runtime (actuate/podruntime)."""

    async def pod_status(self, ref: PodRef) -> PodRuntimeStatus:
        """Read the pod's sandboxes and containers from the runtime."""

    async def sync_pod(
        self,
        pod: Pod,
        status: PodRuntimeStatus,
        probes: Mapping[ContainerID, ContainerProbes],
        prepared: PreparationResult,
        sandbox_ready: Callable[[SandboxStatus], None],
    ) -> Outcome:
        """Do one pass towards the desired pod; deferred preparations are finished before containers are created.

        ``sandbox_ready`` is called with a new sandbox, before the containers' images are pulled.
        """

    async def kill_pod(
        self, ref: PodRef, pod: Pod | None, status: PodRuntimeStatus, grace_seconds: int | None
    ) -> Outcome:
        """Stop all containers and sandboxes of the pod."""

    async def remove_pod(self, ref: PodRef, *, keep_logs: bool) -> None:
        """Remove all containers and sandboxes of a stopped pod, and its logs unless ``keep_logs``: a pod that starts
        again continues its restart counts, which are derived from them."""


class Resources(Protocol):
    """Resources of a pod besides its containers: volumes, cgroup, directories."""

    async def prepare(self, pod: Pod, status: PodRuntimeStatus) -> PreparationResult:
        """Create or update cgroup, directories and volumes; failures name what could not be prepared."""

    async def release(self, uid: PodUID) -> None:
        """Release volumes and cgroup; raises while one is still in use. Idempotent."""

    async def forget(self, uid: PodUID) -> None:
        """Remove the pod's directory. Idempotent."""


class Probes(Protocol):
    """The probe manager (observe/probes)."""

    def sync_pod(self, pod: Pod, status: PodRuntimeStatus) -> None:
        """Start probes of running containers, stop those of others."""

    def results(self, status: PodRuntimeStatus) -> Mapping[ContainerID, ContainerProbes]:
        """Return the current probe results, by container."""

    def stop_all_but_readiness(self, uid: PodUID) -> None:
        """Stop liveness and startup probes of a pod that is being stopped, whose containers end on purpose."""

    def remove_pod(self, uid: PodUID) -> None:
        """Forget the pod."""


class Status(Protocol):
    """The status manager (report/status)."""

    def update(self, pod: Pod, source: StatusInput) -> PodStatus:
        """Compute, store and return the pod's status."""

    def reject(self, pod: Pod, reason: str, message: str) -> PodStatus:
        """Store the final status of a pod that was not admitted."""

    def terminate(self, pod: Pod) -> PodStatus:
        """Complete the last status of a pod none of whose containers runs any more."""

    def remove(self, uid: PodUID) -> None:
        """Forget the pod."""


class Meter(Protocol):
    """Metrics of pod workers, as the Go kubelet has them."""

    def worker_started(self, seconds: float) -> None:
        """Record that a worker started this long after its pod was handed over."""

    def worker_duration(self, operation: str, seconds: float) -> None:
        """Record a step: ``create`` (the first), ``update``, ``sync``, ``kill`` or ``terminated``."""

    def pod_restarted(self, *, static: bool) -> None:
        """Count a pod that its source listed again, under the same uid, while it was being stopped."""

    def admission_rejected(self, reason: str) -> None:
        """Count a pod that was admitted and then rejected, since it cannot be prepared here."""

    def pod_orphaned(self) -> None:
        """Count an orphaned pod of the runtime."""


class Conditions(Protocol):
    """The runtime's health as of the last check (observe/runtime_health)."""

    def current(self) -> RuntimeConditions:
        """Return the runtime's last reply to a Status call."""

    def known(self) -> bool:
        """Whether the runtime has replied to a Status call since the agent started."""


class WorkerDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of the workers."""

    runtime: Runtime
    resources: Resources
    probes: Probes
    status: Status
    conditions: Conditions
    journal: DecisionRecorder
    telemetry: Telemetry[Meter]
    watch_closely: Callable[[PodUID], None]
    """Called when a step has changed the pod, so that PLEG lists it soon where the runtime sends no events."""

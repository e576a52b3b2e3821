"""The pod runtime's interface to other stages: brings a pod to its desired state by CRI calls, sync by sync."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.tasks import yielding_to_loop
from pykubelet.base.errors import PykubeletError
from pykubelet.kubelet.actuate.podruntime.allocation_store import AllocationStore
from pykubelet.kubelet.actuate.podruntime.apply_resize import Resizer, ResizerDeps
from pykubelet.kubelet.actuate.podruntime.concurrency import both, concurrently
from pykubelet.kubelet.actuate.podruntime.garbage_collection import Collector
from pykubelet.kubelet.actuate.podruntime.kill_pod import Killer, KillRequest
from pykubelet.kubelet.actuate.podruntime.log_directories import LogFiles
from pykubelet.kubelet.actuate.podruntime.plan.actions import compute_pod_actions
from pykubelet.kubelet.actuate.podruntime.plan.precreation import precreatable_containers
from pykubelet.kubelet.actuate.podruntime.plan.removals import ContainerGcPolicy
from pykubelet.kubelet.actuate.podruntime.plan.resize import ResizePlan, with_resize
from pykubelet.kubelet.actuate.podruntime.podruntime_interfaces import PodRuntimeDeps
from pykubelet.kubelet.actuate.podruntime.podruntime_types import (
    PodActions,
    PodReason,
    PodRuntimeConfig,
)
from pykubelet.kubelet.actuate.podruntime.read_status import StatusReader
from pykubelet.kubelet.actuate.podruntime.reset_pod import PodResetter
from pykubelet.kubelet.actuate.podruntime.restart_requests import RestartRequests
from pykubelet.kubelet.actuate.podruntime.start.create_sandbox import SandboxError, SandboxMaker, SandboxMakerDeps
from pykubelet.kubelet.actuate.podruntime.start.describe_container import ContainerDescriber, StartJob
from pykubelet.kubelet.actuate.podruntime.start.init_timeline import InitTimeline
from pykubelet.kubelet.actuate.podruntime.start.lifecycle_hooks import HookRunner
from pykubelet.kubelet.actuate.podruntime.start.start_container import ContainerStarter, StarterDeps, StartError
from pykubelet.kubelet.actuate.podruntime.start.start_slots import StartSlots
from pykubelet.kubelet.actuate.podruntime.sync_report import SyncReport
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID, ref_of
from pykubelet.kubelet.types.outcome import Failure, Outcome, PreparationResult, SyncAction
from pykubelet.kubelet.types.podspec import AnyContainer, is_sidecar
from pykubelet.kubelet.types.probes import ContainerProbes
from pykubelet.kubelet.types.reports.events import NORMAL, Reason
from pykubelet.kubelet.types.resources.resize import Allocation, container_size, with_allocation
from pykubelet.kubelet.types.runtime import (
    ContainerKind,
    ContainerState,
    ContainerStatus,
    PodRuntimeStatus,
    RuntimePod,
    SandboxStatus,
)
from pykubelet.models.core_v1 import Pod

_log = logging.getLogger(__name__)


def _ignore_sandbox(sandbox: SandboxStatus) -> None:
    """Do nothing with a new sandbox."""


class PodRuntime:
    """Starts, stops and removes pods, and reads their status.

    Its state in memory only saves calls and delays retries (exited containers, back-offs); it can be lost. Calls for
    one pod must not overlap; calls for different pods may.
    """

    def __init__(self, deps: PodRuntimeDeps, config: PodRuntimeConfig | None = None) -> None:
        config = config or PodRuntimeConfig()
        cri, inputs, telemetry = deps.cri, deps.inputs, deps.telemetry
        clock, events = telemetry.clock, telemetry.events
        logs = LogFiles(config)
        hooks = HookRunner(cri=cri, http=deps.http, events=events, clock=clock, meter=telemetry.metrics)
        self._node = inputs.node
        self._telemetry = telemetry
        self._config = config
        self._reader = StatusReader(cri=cri, files=inputs.files, logs=logs, clock=clock)
        self._killer = Killer(cri=cri, hooks=hooks, events=events, clock=clock)
        describer = ContainerDescriber(inputs=inputs, images=deps.images, config=config)
        self._starter = ContainerStarter(
            StarterDeps(
                cri=cri,
                images=deps.images,
                node=inputs.node,
                describer=describer,
                logs=logs,
                hooks=hooks,
                killer=self._killer,
                telemetry=telemetry,
            ),
            config,
        )
        self._sandboxes = SandboxMaker(
            SandboxMakerDeps(cri=cri, inputs=inputs, logs=logs, conflicts=self._starter.conflicts, telemetry=telemetry),
            config,
        )
        self._collector = Collector(cri=cri, reader=self._reader, killer=self._killer, logs=logs, clock=clock)
        self._logs = logs
        self._logs_reconciled: set[PodUID] = set()
        """Pods whose log marks, which an earlier agent may have left, were reconciled."""
        self._init_timeline = InitTimeline(telemetry.timeline)
        self._start_slots = StartSlots(config.start_slots, config.start_slot_timeout)
        self.allocations = AllocationStore(inputs.files, clock)
        """Allocated resources of pods, shared with admission."""
        self.restarts = RestartRequests(inputs.files, clock)
        """Restarts that persons have requested."""
        self._resizer = Resizer(
            ResizerDeps(cri=cri, resources=inputs.resources, allocations=self.allocations, telemetry=telemetry)
        )
        self._resetter = PodResetter(killer=self._killer, collector=self._collector)

    def reconfigure(self, config: PodRuntimeConfig) -> None:
        """Use the longest back-off of these settings from now on; the rest of them stays."""
        self._starter.crashes.limit(config.crash_maximum)

    async def list_pods(self) -> list[RuntimePod]:
        """List all pods of the runtime with two calls, for PLEG and housekeeping. Raises base errors."""
        return await self._reader.list_pods()

    async def list_pod(self, uid: PodUID) -> RuntimePod | None:
        """List one pod, for PLEG; None if the runtime does not have it. Raises base errors."""
        return await self._reader.list_pod(uid)

    async def pod_status(self, ref: PodRef) -> PodRuntimeStatus:
        """Read the status of the pod's sandboxes and containers from the runtime. Raises base errors.

        Attempts that requested restarts have to replace are marked.
        """
        status = self._starter.precreated.hide(await self._reader.pod_status(ref))
        status = await self.restarts.apply(status)
        applied = self.allocations.applied(ref.uid)
        if not applied:
            return status
        containers = tuple(replace(c, size=applied.get(c.name)) for c in status.containers)
        return replace(status, containers=containers)

    async def sync_pod(
        self,
        pod: Pod,
        status: PodRuntimeStatus,
        probes: Mapping[ContainerID, ContainerProbes],
        prepared: PreparationResult | None = None,
        sandbox_ready: Callable[[SandboxStatus], None] = _ignore_sandbox,
    ) -> Outcome:
        """Take one step towards the desired pod; repeat until nothing changes and nothing fails.

        ``prepared.rest``, if any, runs while the sandbox is created; ``sandbox_ready`` is called with a new sandbox
        before the containers' images are pulled. The sync may be cancelled at any moment: the next
        one continues from what the runtime has.
        """
        self._init_timeline.observe(status)
        await self._reconcile_logs(ref_of(pod), status)
        # The pod's worker may not have the latest allocation yet.
        uid = ref_of(pod).uid
        allocation = self.allocations.get(uid)
        pod = with_allocation(pod, allocation)
        actions, plan = compute_pod_actions(pod, status, probes), None
        if self.allocations.progress(uid) is not None:
            actions, plan = with_resize(actions, pod, status, self.allocations.applied(uid))
        if actions.idle and plan is None:
            return Outcome(decisions=actions.decisions)
        report = SyncReport(decisions=actions.decisions)
        if actions.kill_pod:
            await self._kill_old_pod(pod, status, actions, report)
            if report.failures or not actions.create_sandbox:
                return report.outcome()
        elif actions.reset:
            await self._resetter.reset(pod, status, actions.reset, report)
            return report.outcome()
        elif actions.kill:
            await self._kill_unwanted(pod, status, actions, report)
        await self._prune_init(pod, status, actions)
        if plan is not None and allocation is not None:
            await self._resize(pod, actions, plan, allocation, report)
        async with self._start_slots.slot() if actions.create_sandbox else contextlib.nullcontext():
            creating = self._sandbox(pod, status, actions, report)
            sandbox, failures = await both(creating, self._prepare_rest(actions, prepared), "sandbox-and-volumes")
            report.failures += failures
            if sandbox is not None and actions.create_sandbox:
                sandbox_ready(sandbox)
            if sandbox is not None and not failures:
                await self._start_containers(pod, status, actions, sandbox, report)
        return report.outcome()

    async def _reconcile_logs(self, ref: PodRef, status: PodRuntimeStatus) -> None:
        """Remove the "unstarted" log marks of containers that have run.

        An earlier agent may have marked a container for removal while the runtime was starting it. While a container
        is only created, its start may still be in progress, so the pod is checked again in the next sync.
        """
        if ref.uid in self._logs_reconciled:
            return
        ran = [(c.name, c.restart_count) for c in status.containers if c.state is not ContainerState.CREATED]
        if ran:
            with contextlib.suppress(PykubeletError, OSError):
                await blocking.call(f"pod/{ref.uid}", self._logs.unmark, ref, ran)
        if len(ran) == len(status.containers):
            self._logs_reconciled.add(ref.uid)

    async def kill_pod(
        self, ref: PodRef, pod: Pod | None, status: PodRuntimeStatus, grace_seconds: int | None
    ) -> Outcome:
        """Stop all containers and sandboxes of the pod; return when they have stopped.

        ``pod`` None means an orphan: its facts come from labels and annotations. ``grace_seconds`` overrides the pod's
        own grace period; every container gets at least two seconds.
        """
        request = KillRequest(ref, pod, self._hook_ips(status), grace_seconds)
        failures = await self._killer.kill_pod(request, status)
        return Outcome(changed=_has_running_parts(status), failures=failures)

    async def remove_pod(self, ref: PodRef, *, keep_logs: bool = False) -> None:
        """Remove containers and sandboxes of a stopped pod, and its logs unless ``keep_logs``, from which a pod that
        starts again derives its restart counts. Repeatable; raises Transient if something remains."""
        await self._collector.remove_pod(ref, keep_logs=keep_logs)
        self._reader.forget(ref.uid)
        self._killer.forget(ref.uid)
        self._starter.forget(ref.uid)
        self._init_timeline.forget(ref.uid)
        self._logs_reconciled.discard(ref.uid)
        self.allocations.forget(ref.uid)
        self.restarts.forget(ref.uid)

    async def gc(
        self,
        keep: Callable[[], AbstractSet[PodUID]] | None,
        *,
        ended: Callable[[], AbstractSet[PodUID]] = frozenset,
        policy: ContainerGcPolicy | None = None,
    ) -> None:
        """Remove dead containers, sandboxes, logs and links. ``keep`` None: not all pod sources have been read yet.

        ``keep`` returns the pods that are desired or have a worker, ``ended`` those of them whose dead containers are
        removed too (disk pressure); they are called after the runtime was listed.
        """
        self._starter.crashes.collect(self._telemetry.clock.monotonic())
        await self._collector.collect(policy or ContainerGcPolicy(), keep, ended)

    async def _kill_old_pod(self, pod: Pod, status: PodRuntimeStatus, actions: PodActions, report: SyncReport) -> None:
        """Stop all containers and sandboxes, before a new sandbox is created or because the pod has terminated."""
        ref = ref_of(pod)
        if actions.create_sandbox and status.sandboxes:
            message = "Pod sandbox changed, it will be killed and re-created."
            self._telemetry.events.event(ref, NORMAL, Reason.SANDBOX_CHANGED, message)
        outcome = await self.kill_pod(ref, pod, status, None)
        report.changed |= outcome.changed
        report.failures += outcome.failures
        if actions.create_sandbox and not outcome.failures:
            # Init containers run again in the new sandbox.
            for attempts in _attempts_of_init(pod, status):
                await self._collector.remove_attempts(ref, attempts[:1], with_logs=False)
                await self._collector.remove_attempts(ref, attempts[1:], with_logs=True)

    async def _kill_unwanted(self, pod: Pod, status: PodRuntimeStatus, actions: PodActions, report: SyncReport) -> None:
        request = KillRequest(ref_of(pod), pod, self._hook_ips(status))
        failures = await self._killer.kill(request, actions.kill)
        report.failures += failures
        report.changed |= len(failures) < len(actions.kill)

    async def _resize(
        self, pod: Pod, actions: PodActions, plan: ResizePlan, allocation: Allocation, report: SyncReport
    ) -> None:
        """Resize the running containers. If some have to restart for it, a later sync completes the resize."""
        assert actions.sandbox_id is not None
        try:
            await self.allocations.save(ref_of(pod).uid)
            await self._resizer.apply(pod, actions.sandbox_id, plan)
            report.changed = True
            if not plan.restart and not report.failures:
                await self._resizer.complete(pod, allocation)
        except PykubeletError as error:
            name = pod.metadata.name
            report.failures.append(Failure(SyncAction.RESIZE, name, PodReason.RESIZE, str(error)))

    async def _prune_init(self, pod: Pod, status: PodRuntimeStatus, actions: PodActions) -> None:
        """Keep one exited attempt of each init container: crashing ones pile up faster than garbage is collected."""
        if actions.create_sandbox:
            return
        for attempts in _attempts_of_init(pod, status):
            ended = [c for c in attempts if c.state is ContainerState.EXITED]
            await self._collector.remove_attempts(ref_of(pod), ended[1:], with_logs=True)

    async def _sandbox(
        self, pod: Pod, status: PodRuntimeStatus, actions: PodActions, report: SyncReport
    ) -> SandboxStatus | None:
        """Return the sandbox to start containers in, created if needed; None if there is no usable one."""
        if not actions.create_sandbox:
            return status.ready_sandbox
        try:
            sandbox = await self._sandboxes.make(pod, actions.attempt)
        except SandboxError as error:
            failure = Failure(SyncAction.CREATE_SANDBOX, pod.metadata.name, error.reason, str(error), error.conflict)
            report.failures.append(failure)
            if error.conflict:
                report.wake(self._telemetry.clock.monotonic() + self._config.conflict_retry)
            return None
        report.changed = True
        self._reader.expect_sandbox(status.uid, sandbox.id)
        return sandbox

    async def _prepare_rest(self, actions: PodActions, prepared: PreparationResult | None) -> tuple[Failure, ...]:
        """Prepare what the first containers need but the sandbox does not; after a failure they are not started."""
        first = (actions.start_init[:1] or actions.start) if actions.create_sandbox else ()
        lookups = concurrently((self._starter.look_for_image(each) for each in first), "look-for-images")
        rest = prepared.rest() if prepared is not None and prepared.rest is not None else _nothing()
        failures, _ = await both(rest, lookups, "while-sandbox-starts")
        return failures

    async def _start_containers(
        self,
        pod: Pod,
        status: PodRuntimeStatus,
        actions: PodActions,
        sandbox: SandboxStatus,
        report: SyncReport,
    ) -> None:
        """Start ephemeral, init, then ordinary containers, each in spec order; stop at an init container that fails."""
        uid = ref_of(pod).uid
        for container in (*actions.start_init, *actions.start):
            self.allocations.note_applied(uid, container.name, container_size(pod, container))
        await self.allocations.save(uid)
        try:
            config = self._sandboxes.describe(pod, sandbox.attempt)
        except SandboxError as error:
            report.failures.append(Failure(SyncAction.CREATE_SANDBOX, pod.metadata.name, error.reason, str(error)))
            return

        def jobs(containers: Collection[AnyContainer], kind: ContainerKind) -> list[StartJob]:
            return [StartJob(pod, c, kind, status, sandbox, config) for c in containers]

        await self._start_all(jobs(actions.start_ephemeral, ContainerKind.EPHEMERAL), report)
        for job in jobs(actions.start_init, ContainerKind.INIT):
            started = await self._start_all([job], report)
            if not started and not is_sidecar(job.container):
                return
        await self._start_all(jobs(actions.start, ContainerKind.CONTAINER), report)
        if actions.start_init and not report.failures:
            precreatable = precreatable_containers(pod, actions.start_init[-1].name, status)
            is_init = bool(precreatable) and precreatable[0] in pod.spec.init_containers
            kind = ContainerKind.INIT if is_init else ContainerKind.CONTAINER
            for job in jobs(precreatable, kind):
                await self._starter.precreate(job)

    async def _start_all(self, jobs: Sequence[StartJob], report: SyncReport) -> bool:
        """Start containers one after the other, with concurrent image pulls; return False if one failed."""
        not_killed = {f.target for f in report.failures if f.action is SyncAction.KILL_CONTAINER}
        ready = [job for job in jobs if job.container.name not in not_killed and self._may_start(job, report)]
        ok = len(ready) == len(jobs)
        async with asyncio.TaskGroup() as pulls:
            image_of = self._starter.image
            images = [pulls.create_task(image_of(job), name="ensure-image") async for job in yielding_to_loop(ready)]
            for job, image in zip(ready, images, strict=True):
                try:
                    await self._starter.start(job, await image)
                except StartError as error:
                    ok = False
                    self._note_failure(job, error, report)
                    continue
                report.changed = True
                report.started.append(job.container.name)
                if job.kind is ContainerKind.INIT and not is_sidecar(job.container):
                    self._init_timeline.begin(ref_of(job.pod).uid, job.container.name)
        return ok

    def _may_start(self, job: StartJob, report: SyncReport) -> bool:
        try:
            self._starter.check_back_off(job)
        except StartError as error:
            self._note_failure(job, error, report)
            return False
        return True

    def _note_failure(self, job: StartJob, error: StartError, report: SyncReport) -> None:
        action = SyncAction.INIT_CONTAINER if job.kind is ContainerKind.INIT else SyncAction.START_CONTAINER
        name = job.container.name
        report.failures.append(Failure(action, name, error.reason, error.message, error.transient, error.retry_at))
        report.wake(error.retry_at)
        extra = {"pod": str(ref_of(job.pod)), "container": name, "reason": error.reason}
        _log.info("container not started", extra=extra)

    def _hook_ips(self, status: PodRuntimeStatus) -> tuple[str, ...]:
        """Addresses for httpGet hooks without a host: the pod's, or the node's for a pod on the host network."""
        on_host = status.ready_sandbox is not None and status.ready_sandbox.host_network
        return self._node.ips() if on_host else status.ips


async def _nothing() -> tuple[Failure, ...]:
    return ()


def _has_running_parts(status: PodRuntimeStatus) -> bool:
    return bool(status.unfinished) or any(sandbox.ready for sandbox in status.sandboxes)


def _attempts_of_init(pod: Pod, status: PodRuntimeStatus) -> list[Sequence[ContainerStatus]]:
    """Attempts of each init container, newest first."""
    return [status.attempts(spec.name) for spec in pod.spec.init_containers]

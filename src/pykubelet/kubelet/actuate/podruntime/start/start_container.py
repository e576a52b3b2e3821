"""Starts a container: image, configuration, create, start, postStart hook."""

import logging
from collections import Counter
from contextlib import suppress

from msgspec import Struct

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.base.event_times import EventTimes
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.actuate_types import ImageError, ImageReason
from pykubelet.kubelet.actuate.podruntime.kill_pod import Killer, KillRequest
from pykubelet.kubelet.actuate.podruntime.log_directories import LogFiles
from pykubelet.kubelet.actuate.podruntime.plan.crashloop import CrashLoop
from pykubelet.kubelet.actuate.podruntime.plan.restart import next_restart_count
from pykubelet.kubelet.actuate.podruntime.podruntime_interfaces import Cri, Images, Node
from pykubelet.kubelet.actuate.podruntime.podruntime_types import (
    ContainerKill,
    KillReason,
    PodRuntimeConfig,
    StartReason,
)
from pykubelet.kubelet.actuate.podruntime.runtime_errors import NameConflicts, error_message, is_name_conflict
from pykubelet.kubelet.actuate.podruntime.start.describe_container import ContainerDescriber, StartJob
from pykubelet.kubelet.actuate.podruntime.start.lifecycle_hooks import HookError, HookRunner, HookTarget
from pykubelet.kubelet.actuate.podruntime.start.precreated import PrecreatedContainer, PrecreatedContainers
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import ContainerID, PodUID, ref_of
from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.kubelet.types.reports.events import NORMAL, WARNING, Reason
from pykubelet.kubelet.types.reports.timeline import Step
from pykubelet.kubelet.types.reports.work_meter import WorkMeter
from pykubelet.kubelet.types.runtime import ContainerState
from pykubelet.models.core_v1 import LifecycleHandler
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)
_MAX_REFUSALS = 20


class StartError(PykubeletError):
    """A container was not started. ``reason`` and ``message`` are shown in its waiting state.

    ``retry_at`` (monotonic seconds) is the time of the next try; None if it is not known.
    """

    def __init__(self, reason: str, message: str, *, transient: bool = False, retry_at: Seconds | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.transient = transient
        self.retry_at = retry_at


class StarterDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of `ContainerStarter`."""

    cri: Cri
    images: Images
    node: Node
    describer: ContainerDescriber
    logs: LogFiles
    hooks: HookRunner
    killer: Killer
    telemetry: Telemetry[WorkMeter]


class ContainerStarter:
    """Starts containers. Every step may be interrupted: the next sync continues with or replaces what it finds."""

    def __init__(self, deps: StarterDeps, config: PodRuntimeConfig) -> None:
        self._deps = deps
        self._config = config
        self._logs = deps.logs
        self._hooks = deps.hooks
        self._killer = deps.killer
        self._describer = deps.describer
        event_times = EventTimes(deps.telemetry.clock)
        self.crashes = CrashLoop(config, lambda attempt: event_times.monotonic(attempt.id, attempt.finished_at))
        self.conflicts = NameConflicts()
        self.precreated = PrecreatedContainers()
        self._refusals: dict[PodUID, Counter[ContainerID]] = {}
        """Number of times that the runtime has refused to remove an attempt that never ran."""

    def forget(self, uid: PodUID) -> None:
        """Forget a pod that was removed."""
        self.conflicts.forget(uid)
        self.crashes.forget(uid)
        self.precreated.forget(uid)
        self._refusals.pop(uid, None)

    def check_back_off(self, job: StartJob) -> None:
        """Raise StartError while the container is in back-off after its last exit (CrashLoopBackOff)."""
        name, ref = job.container.name, ref_of(job.pod)
        wait = self.crashes.wait(job.status, job.container, self._deps.telemetry.clock.monotonic())
        if wait is None:
            return
        pod = f"{ref.name}_{ref.namespace}({ref.uid})"
        event = f"Back-off restarting failed container {name} in pod {pod}"
        self._event(job, WARNING, Reason.BACK_OFF_START_CONTAINER, event)
        message = f"back-off {go_duration(wait.delay)} restarting failed container={name} pod={pod}"
        raise StartError(StartReason.CRASH_LOOP_BACK_OFF, message, transient=True, retry_at=wait.until)

    async def image(self, job: StartJob) -> str | StartError:
        """Return the image, pulled if needed. Errors are returned, since pulls run before the container is started."""
        try:
            return await self._deps.images.ensure(job.pod, job.container, job.kind)
        except ImageError as error:
            return _image_error(error)
        except PykubeletError as error:
            return StartError(ImageReason.IMAGE_INSPECT_ERROR, error_message(error))

    async def look_for_image(self, container: AnyContainer) -> None:
        """Look up the image early, so that its presence is cached when the container starts; ignores errors."""
        with suppress(PykubeletError):
            await self._deps.images.present(container)

    async def precreate(self, job: StartJob) -> None:
        """Pre-create a container if its image is present; no pull is started.

        No events are sent: a failure is retried, and reported, when the container is started.
        """
        try:
            image = await self._deps.images.present(job.container)
            if image is None:
                return
            restart_count, config = await self._describe(job, image, None)
            container = await self._deps.cri.create_container(job.sandbox.id, config, job.sandbox_config)
        except (PykubeletError, OSError) as error:
            fields = {"pod": str(ref_of(job.pod)), "container": job.container.name, "error": str(error)}
            _log.debug("container not pre-created", extra=fields)
            return
        self.precreated.add(job, PrecreatedContainer(container, job.sandbox.id, config, restart_count))

    async def start(self, job: StartJob, image: str | StartError) -> None:
        """Create and start the container, and run its postStart hook. Raises StartError."""
        if isinstance(image, StartError):
            self._event(job, WARNING, Reason.FAILED_TO_CREATE_CONTAINER, f"Error: {image.reason}")
            raise image
        ref, timeline, name = ref_of(job.pod), self._deps.telemetry.timeline, job.container.name
        timeline.begin(ref.uid, Step.CREATE, name)
        try:
            container = await self._create(job, image)
        except StartError as error:
            timeline.end(ref.uid, Step.CREATE, name, error=error.message)
            raise
        timeline.end(ref.uid, Step.CREATE, name)
        timeline.begin(ref.uid, Step.START, name)
        try:
            await self._deps.cri.start_container(container)
        except PykubeletError as error:
            timeline.end(ref.uid, Step.START, name, error=error_message(error))
            raise self._failed(job, StartReason.RUN, error, container) from error
        timeline.end(ref.uid, Step.START, name)
        self._event(job, NORMAL, Reason.STARTED_CONTAINER, "Container started")
        lifecycle = job.container.lifecycle
        if lifecycle is not None and lifecycle.post_start is not None:
            await self._post_start(job, container, lifecycle.post_start)

    async def _create(self, job: StartJob, image_ref: str) -> ContainerID:
        """Create the container, or take the pre-created one; return its id. Raises StartError."""
        ref, name = ref_of(job.pod), job.container.name
        unstarted = [c for c in job.status.attempts(name) if c.state is ContainerState.CREATED]
        for attempt in unstarted:
            await self._remove_unstarted(job, attempt.id, attempt.restart_count)
        made = self.precreated.take(job)
        try:
            restart_count, config = await self._describe(job, image_ref, made)
        except ImageError as error:  # of an image volume
            self._event(job, WARNING, Reason.FAILED_TO_CREATE_CONTAINER, f"Error: {error.reason}")
            raise _image_error(error) from error
        except (PykubeletError, OSError) as error:
            raise self._failed(job, StartReason.CONFIG, error) from error
        self.crashes.starting(job.status, job.container, self._deps.telemetry.clock.monotonic())
        if made is not None and made.fits(job.sandbox.id, config):
            container = made.id
        else:
            if made is not None:
                await self._remove_unstarted(job, made.id, restart_count)
            try:
                container = await self._deps.cri.create_container(job.sandbox.id, config, job.sandbox_config)
            except PykubeletError as error:
                raise self._failed(job, StartReason.CREATE, error) from error
        self.conflicts.clear(ref.uid, name)
        self._event(job, NORMAL, Reason.CREATED_CONTAINER, "Container created")
        # Link the log before the start, so that an interruption leaves no running container without a link.
        await self._note_created(job, container, config.log_path, restart_count)
        return container

    async def _describe(
        self, job: StartJob, image_ref: str, made: PrecreatedContainer | None
    ) -> tuple[int, pb.ContainerConfig]:
        """Return the restart count and the CRI configuration; a pre-created container keeps its files."""
        ref, name = ref_of(job.pod), job.container.name
        from_logs = await blocking.call(f"pod/{ref.uid}", self._logs.prepare_container, ref, name)
        count = made.restart_count if made else next_restart_count(job.status, name, from_logs)
        config = await self._describer.describe(job, image_ref, count, made.config if made else None)
        config.metadata.attempt += self.conflicts.extra(ref.uid, name)
        return count, config

    async def _remove_unstarted(self, job: StartJob, attempt: ContainerID, restart_count: int) -> None:
        """Remove an attempt that was created but never ran: the next attempt takes its place and number.

        The runtime refuses while it is still cleaning up an interrupted start: StartError asks for a retry soon, since
        a second attempt could lead to two running containers. A runtime that keeps refusing has lost track of the
        attempt (containerd 1.6 may, of a running task): then it is ignored, and the next attempt gets another number.
        """
        ref, name = ref_of(job.pod), job.container.name
        refused = self._refusals.setdefault(ref.uid, Counter())
        if refused[attempt] >= _MAX_REFUSALS:
            return
        try:
            await blocking.call(f"pod/{ref.uid}", self._logs.mark_unstarted, ref, name, restart_count)
            with suppress(NotFound):
                await self._deps.cri.remove_container(attempt)
            await blocking.call(f"pod/{ref.uid}", self._logs.remove_attempt, ref, name, attempt, restart_count)
        except (PykubeletError, OSError) as error:
            refused[attempt] += 1
            with suppress(OSError):
                await blocking.call(f"pod/{ref.uid}", self._logs.unmark, ref, [(name, restart_count)])
            message = f"cannot remove the container of an interrupted start: {error_message(error)}"
            retry_at = self._deps.telemetry.clock.monotonic() + self._config.conflict_retry
            raise StartError(StartReason.CREATE, message, transient=True, retry_at=retry_at) from error
        refused.pop(attempt, None)

    async def _note_created(self, job: StartJob, container: ContainerID, log_path: str, restart_count: int) -> None:
        ref, name = ref_of(job.pod), job.container.name
        try:
            await blocking.call(f"pod/{ref.uid}", self._logs.created, ref, name, container, log_path, restart_count)
        except OSError as error:
            _log.warning(
                "log link not created",
                extra={"pod": str(ref), "container": name, "error": str(error)},
            )

    async def _post_start(self, job: StartJob, container: ContainerID, hook: LifecycleHandler) -> None:
        """Run the postStart hook; stop the container if it fails. Raises StartError."""
        ref, timeline, name = ref_of(job.pod), self._deps.telemetry.timeline, job.container.name
        ips = self._deps.node.ips() if job.sandbox.host_network else job.sandbox.ips
        timeline.begin(ref.uid, Step.POST_START, name)
        try:
            await self._hooks.run(hook, HookTarget(ref, name, container, job.container.ports, ips))
        except HookError as error:
            timeline.end(ref.uid, Step.POST_START, name, error="failed")
            # The error may contain secrets of the container, so it is not in the event.
            self._event(job, WARNING, Reason.FAILED_POST_START_HOOK, "PostStartHook failed")
            kill = ContainerKill(container, name, "FailedPostStartHook", KillReason.FAILED_POST_START_HOOK)
            await self._killer.kill(KillRequest(ref, job.pod, ips), [kill])
            raise StartError(StartReason.POST_START_HOOK, str(error)) from error
        timeline.end(ref.uid, Step.POST_START, name)

    def _failed(
        self, job: StartJob, reason: StartReason, error: PykubeletError | OSError, container: str = ""
    ) -> StartError:
        """Send the event of a failed start and return the error. Without a container id, repeated events are merged."""
        message = error_message(error)
        shown = message.replace(container, job.container.name) if container else message
        self._event(job, WARNING, Reason.FAILED_TO_START_CONTAINER, f"Error: {shown}")
        uid = ref_of(job.pod).uid
        if reason is StartReason.CREATE and isinstance(error, PykubeletError) and is_name_conflict(error):
            self.conflicts.note(uid, job.container.name)
            retry_at = self._deps.telemetry.clock.monotonic() + self._config.conflict_retry
            return StartError(reason, message, transient=True, retry_at=retry_at)
        return StartError(reason, message)

    def _event(self, job: StartJob, event_type: str, reason: str, message: str) -> None:
        self._deps.telemetry.events.event(ref_of(job.pod), event_type, reason, message, container=job.container.name)


def _image_error(error: ImageError) -> StartError:
    return StartError(error.reason, error.message, transient=error.transient, retry_at=error.retry_at)


def go_duration(seconds: Seconds) -> str:
    """Format whole seconds as Go does: ``10s``, ``2m40s``, ``5m0s``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"

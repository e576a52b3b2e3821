"""Creates the sandbox of a pod, with its log directory and user namespace."""

from msgspec import Struct

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.kubelet.actuate.cri.plan.conversion import sandbox_status
from pykubelet.kubelet.actuate.cri_messages.config_types import ConfigError, SandboxContext
from pykubelet.kubelet.actuate.cri_messages.dns import pod_dns
from pykubelet.kubelet.actuate.cri_messages.sandbox import sandbox_config
from pykubelet.kubelet.actuate.podruntime.log_directories import LogFiles
from pykubelet.kubelet.actuate.podruntime.podruntime_interfaces import Cri, PodInputs
from pykubelet.kubelet.actuate.podruntime.podruntime_types import PodReason, PodRuntimeConfig
from pykubelet.kubelet.actuate.podruntime.runtime_errors import NameConflicts, error_message, is_name_conflict
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import ref_of
from pykubelet.kubelet.types.reports.events import WARNING, Reason
from pykubelet.kubelet.types.reports.timeline import Step
from pykubelet.kubelet.types.reports.work_meter import WorkMeter
from pykubelet.kubelet.types.runtime import SandboxStatus
from pykubelet.models.core_v1 import Pod
from pykubelet.pb import runtime_v1_pb2 as pb


class SandboxError(PykubeletError):
    """The pod has no usable sandbox. ``conflict``: its name is taken, so retry soon."""

    def __init__(self, reason: PodReason, message: str, *, conflict: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.conflict = conflict


class SandboxMakerDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of `SandboxMaker`."""

    cri: Cri
    inputs: PodInputs
    logs: LogFiles
    conflicts: NameConflicts
    telemetry: Telemetry[WorkMeter]


class SandboxMaker:
    """Creates sandboxes."""

    def __init__(self, deps: SandboxMakerDeps, config: PodRuntimeConfig) -> None:
        self._deps = deps
        self._config = config
        self._logs = deps.logs
        self._conflicts = deps.conflicts

    def describe(self, pod: Pod, attempt: int) -> pb.PodSandboxConfig:
        """Build the CRI sandbox configuration. Raises ``SandboxError`` if the pod's settings are invalid here."""
        resources, node = self._deps.inputs.resources, self._deps.inputs.node
        sums, overhead = resources.pod_resources(pod)
        context = SandboxContext(
            log_root=self._config.pod_logs_dir,
            cgroup_parent=resources.pod_parent(pod),
            resolver=node.resolver(),
            sysctls=node.sysctls(),
            resources=sums,
            overhead=overhead,
            user_namespace=self._deps.inputs.users.given(pod),
            extra_groups=self._deps.inputs.volumes.extra_groups(pod),
        )
        try:
            return sandbox_config(pod, attempt, context)
        except ConfigError as error:
            raise SandboxError(PodReason.CONFIG_SANDBOX, error.message) from error

    async def make(self, pod: Pod, attempt: int) -> SandboxStatus:
        """Create and start a sandbox; return its status with addresses. Raises ``SandboxError``.

        ``attempt`` is raised if its name stays taken by a sandbox that the runtime does not list.
        """
        ref, timeline = ref_of(pod), self._deps.telemetry.timeline
        timeline.begin(ref.uid, Step.SANDBOX)
        try:
            status = await self._make(pod, attempt + self._conflicts.extra(ref.uid, ""))
        except (PykubeletError, OSError) as error:
            timeline.end(ref.uid, Step.SANDBOX, error=error_message(error))
            raise self._failed(pod, error) from error
        timeline.end(ref.uid, Step.SANDBOX)
        self._conflicts.clear(ref.uid, "")
        return status

    async def _make(self, pod: Pod, attempt: int) -> SandboxStatus:
        ref, cri, events = ref_of(pod), self._deps.cri, self._deps.telemetry.events
        handler = self._deps.inputs.node.runtime_handler(pod)
        await self._deps.inputs.users.allocate(pod, handler)
        config = self.describe(pod, attempt)
        for warning in pod_dns(pod, self._deps.inputs.node.resolver()).warnings:
            events.event(ref, WARNING, warning.reason, warning.message)
        await blocking.call(f"pod/{ref.uid}", self._logs.make_pod_dir, ref)
        sandbox = await cri.run_pod_sandbox(config, handler)
        try:
            status = sandbox_status((await cri.pod_sandbox_status(sandbox)).status)
        except PykubeletError as error:
            message = f"Unable to get pod sandbox status: {error_message(error)}"
            events.event(ref, WARNING, Reason.FAILED_STATUS_POD_SANDBOX, message)
            raise
        if not status.ready:
            raise NotFound("the sandbox exited right after its start")
        if not status.ips and not pod.spec.host_network:
            raise NotFound("the sandbox has no IP address; check the log of the runtime's network plugin")
        return status

    def _failed(self, pod: Pod, error: PykubeletError | OSError) -> SandboxError:
        ref = ref_of(pod)
        conflict = isinstance(error, PykubeletError) and is_name_conflict(error)
        if conflict:
            self._conflicts.note(ref.uid, "")
        message = f"Failed to create pod sandbox: {error_message(error)}"
        self._deps.telemetry.events.event(ref, WARNING, Reason.FAILED_CREATE_POD_SANDBOX, message)
        if isinstance(error, SandboxError):
            return error
        shown = f'Failed to create sandbox for pod "{ref.name}_{ref.namespace}({ref.uid})": {error_message(error)}'
        return SandboxError(PodReason.CREATE_SANDBOX, shown, conflict=conflict)

"""Values of the pod runtime: actions, reasons and settings."""

from dataclasses import dataclass, field
from enum import StrEnum

from msgspec import Struct

from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.kubelet.types.reports.decisions import Decision
from pykubelet.models.core_v1 import Container, EphemeralContainer


class KillReason(StrEnum):
    """Reason to stop a container; names as in the Go kubelet."""

    STARTUP_PROBE = "StartupProbe"
    LIVENESS_PROBE = "LivenessProbe"
    FAILED_POST_START_HOOK = "FailedPostStartHook"
    RESTART_ALL_CONTAINERS = "RestartAllContainers"
    UNKNOWN = "Unknown"


class StartReason(StrEnum):
    """Waiting reasons of a container that could not be started; ``ImageReason`` has those about images."""

    CRASH_LOOP_BACK_OFF = "CrashLoopBackOff"
    CONFIG = "CreateContainerConfigError"
    CREATE = "CreateContainerError"
    RUN = "RunContainerError"
    POST_START_HOOK = "PostStartHookError"


class PodReason(StrEnum):
    """Reasons of failures that concern the whole pod, or stopping or removing a container."""

    CREATE_SANDBOX = "CreatePodSandboxError"
    CONFIG_SANDBOX = "ConfigPodSandboxError"
    KILL_SANDBOX = "KillPodSandboxError"
    KILL_CONTAINER = "KillContainerError"
    RESIZE = "ResizePodInPlaceError"
    REMOVE_CONTAINER = "RemoveContainerError"


class ContainerKill(Struct, frozen=True):
    """Container to stop. ``message`` is the text of its event; empty for the default text."""

    id: ContainerID
    name: str
    message: str = ""
    reason: KillReason = KillReason.UNKNOWN


class ContainerReset(Struct, frozen=True):
    """Container to remove because a restart rule restarts all containers of the pod in place (KEP-5532)."""

    id: ContainerID
    name: str
    running: bool
    """The container has to be killed first, without a grace period."""


@dataclass(frozen=True, slots=True)
class PodActions:
    """Actions of one pod sync, in this order: kill, create the sandbox, start; with ``reset`` there are no others."""

    attempt: int = 0
    """Attempt number of the existing sandbox, or of the one to create."""
    sandbox_id: SandboxID | None = None
    """The existing sandbox, even if it has to be replaced."""
    kill_pod: bool = False
    """Stop all containers and sandboxes. Without ``create_sandbox`` the pod has terminated."""
    create_sandbox: bool = False
    kill: tuple[ContainerKill, ...] = ()
    reset: tuple[ContainerReset, ...] = ()
    """Containers to kill and remove one by one, in this order; no container is started in this sync."""
    start_ephemeral: tuple[EphemeralContainer, ...] = ()
    start_init: tuple[Container, ...] = ()
    start: tuple[Container, ...] = ()
    decisions: tuple[Decision, ...] = field(default=(), compare=False)
    """The reason of each action, and of each object that stays as it is."""

    @property
    def idle(self) -> bool:
        """Whether nothing has to be done: the pod runs as desired, or waits for an event."""
        return not (
            self.kill_pod
            or self.create_sandbox
            or self.kill
            or self.reset
            or self.start_ephemeral
            or self.start_init
            or self.start
        )


class PodRuntimeConfig(Struct, frozen=True):
    """Directories and delays of the pod runtime."""

    pod_logs_dir: str = "/var/log/pods"
    container_logs_dir: str = "/var/log/containers"
    """Directory of the symlinks for log collectors; empty for none."""
    node_hosts: str = "/etc/hosts"
    """File that /etc/hosts of host-network pods is copied from."""
    crash_initial: Seconds = 10.0
    crash_maximum: Seconds = 300.0
    crash_reset_after: Seconds = 600.0
    """A container that has run this long starts with the initial back-off again."""
    conflict_retry: Seconds = 0.5
    """Delay of the next sync after the runtime has reported a name conflict."""
    start_slots: int = 8
    """Number of pods that create their sandbox and first containers at the same time; other pods wait."""
    start_slot_timeout: Seconds = 1.0
    """After this time a pod gives its start slot to the next one, even if it is not started yet."""


MINIMUM_GRACE: Seconds = 2.0
"""Minimum time between SIGTERM and SIGKILL, whatever is left of the grace period."""

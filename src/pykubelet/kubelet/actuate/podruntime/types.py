"""What the parts of the pod runtime say to each other: decisions, settings, and facts taken from labels."""

from dataclasses import dataclass
from enum import StrEnum

from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.models.core_v1 import Container, EphemeralContainer


class KillReason(StrEnum):
    """Why a container is stopped; the reference's names."""

    STARTUP_PROBE = "StartupProbe"
    LIVENESS_PROBE = "LivenessProbe"
    FAILED_POST_START_HOOK = "FailedPostStartHook"
    RESTART_ALL_CONTAINERS = "RestartAllContainers"
    UNKNOWN = "Unknown"


class StartReason(StrEnum):
    """Waiting reasons of a container that could not be started; image reasons are those of the image manager."""

    CRASH_LOOP_BACK_OFF = "CrashLoopBackOff"
    CONFIG = "CreateContainerConfigError"
    CREATE = "CreateContainerError"
    RUN = "RunContainerError"
    POST_START_HOOK = "PostStartHookError"


class PodReason(StrEnum):
    """Reasons of failures that concern the whole pod, or the stopping of a container."""

    CREATE_SANDBOX = "CreatePodSandboxError"
    CONFIG_SANDBOX = "ConfigPodSandboxError"
    KILL_SANDBOX = "KillPodSandboxError"
    KILL_CONTAINER = "KillContainerError"
    RESIZE = "ResizePodInPlaceError"
    REMOVE_CONTAINER = "RemoveContainerError"


@dataclass(frozen=True, slots=True)
class ContainerKill:
    """One container to stop. ``message`` is the text of its event; empty for the usual one."""

    id: ContainerID
    name: str
    message: str = ""
    reason: KillReason = KillReason.UNKNOWN


@dataclass(frozen=True, slots=True)
class ContainerReset:
    """One container to forget, because a rule restarts the whole pod in place (KEP-5532)."""

    id: ContainerID
    name: str
    running: bool
    """It has to be killed first, without grace."""


@dataclass(frozen=True, slots=True)
class PodActions:
    """What one sync has to do, in this order: kill, create the sandbox, start."""

    attempt: int = 0
    """Of the sandbox that is there or has to be made."""
    sandbox_id: SandboxID | None = None
    """The sandbox that is there, even if it has to be replaced."""
    kill_pod: bool = False
    """Stop everything. Without ``create_sandbox`` the pod has come to its end."""
    create_sandbox: bool = False
    kill: tuple[ContainerKill, ...] = ()
    reset: tuple[ContainerReset, ...] = ()
    """To be killed and removed one by one, in this order; nothing is started meanwhile."""
    start_ephemeral: tuple[EphemeralContainer, ...] = ()
    start_init: tuple[Container, ...] = ()
    start: tuple[Container, ...] = ()

    @property
    def idle(self) -> bool:
        """Nothing has to be done: the pod runs as wanted, or waits for something to happen by itself."""
        return not (
            self.kill_pod
            or self.create_sandbox
            or self.kill
            or self.reset
            or self.start_ephemeral
            or self.start_init
            or self.start
        )


@dataclass(frozen=True, slots=True)
class PodRuntimeConfig:
    """Directories and delays of the pod runtime."""

    pod_logs_dir: str = "/var/log/pods"
    container_logs_dir: str = "/var/log/containers"
    """Where the symlinks of log collectors are; empty for none."""
    node_hosts: str = "/etc/hosts"
    """The file that pods on the host's network start from."""
    crash_initial: Seconds = 10.0
    crash_maximum: Seconds = 300.0
    crash_reset_after: Seconds = 600.0
    """A container that has run that long starts its back-off anew."""
    conflict_retry: Seconds = 0.5
    """How soon to look again when the runtime says that a name is taken."""
    start_slots: int = 8
    """So many pods get their sandbox and first containers at a time; the others wait for their turn."""
    start_slot_timeout: Seconds = 1.0
    """A pod that takes longer does not keep the next one waiting."""


MINIMUM_GRACE: Seconds = 2.0
"""Every container gets this long between SIGTERM and SIGKILL, whatever is left of its grace period."""

"""The actual state of pods, sandboxes and containers, as the container runtime reports it.

Built from CRI replies by :mod:`pykubelet.kubelet.actuate.podruntime`, the only package that parses CRI labels.
Times are Unix seconds (wall clock); 0.0 means "not yet".
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cached_property

from msgspec import Struct, field

from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID, SandboxID
from pykubelet.kubelet.types.resources.size import Size


class ContainerState(StrEnum):
    """Container states of CRI."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"


class ContainerKind(StrEnum):
    """The list of the pod's spec that a container belongs to."""

    INIT = "init"
    """An init container, sidecars (``restartPolicy: Always``) included."""
    CONTAINER = "container"
    EPHEMERAL = "ephemeral"


class ContainerSummary(Struct, frozen=True):
    """A container as ListContainers returns it: cheap to get, and enough to detect changes."""

    id: ContainerID
    name: str
    state: ContainerState
    sandbox_id: SandboxID
    attempt: int = 0
    created_at: float = 0.0


class SandboxSummary(Struct, frozen=True):
    """A pod sandbox as ListPodSandbox returns it."""

    id: SandboxID
    ready: bool
    created_at: float = 0.0
    attempt: int = 0


class RuntimePod(Struct, frozen=True):
    """A pod as the runtime lists it; both tuples are newest first."""

    ref: PodRef
    sandboxes: tuple[SandboxSummary, ...] = ()
    containers: tuple[ContainerSummary, ...] = ()

    @property
    def uid(self) -> PodUID:
        return self.ref.uid

    @property
    def is_running(self) -> bool:
        """Whether a sandbox is ready or a container has not ended."""
        return any(s.ready for s in self.sandboxes) or any(
            c.state is not ContainerState.EXITED for c in self.containers
        )


class ContainerResources(Struct, frozen=True):
    """Resources that the runtime reports as applied (CRI ContainerStatus.resources); None: not reported."""

    cpu_shares: int | None = None
    cpu_quota_us: int | None = None
    cpu_period_us: int | None = None
    memory_limit_bytes: int | None = None


class ContainerStatus(Struct, frozen=True):
    """One attempt of a container in full, from CRI ContainerStatus."""

    id: ContainerID
    name: str
    state: ContainerState
    sandbox_id: SandboxID = SandboxID("")
    created_at: float = 0.0
    started_at: float = 0.0
    finished_at: float = 0.0
    exit_code: int = 0
    reason: str = ""
    """The runtime's reason (``OOMKilled``, ``Completed``, ``Error``, …)."""
    message: str = ""
    """The termination message, already read, or the runtime's message."""
    image: str = ""
    """The image as the pod's spec names it."""
    image_id: str = ""
    """The image in use, as the API reports it (the repo digest where known)."""
    image_ref: str = ""
    hash: str = ""
    """Hash of the container's spec at creation; it differs from the current one after a change of the spec."""
    restart_count: int = 0
    log_path: str = ""
    resources: ContainerResources | None = None
    size: Size | None = None
    """CPU and memory that it runs with by the agent's own record, where they may differ from its allocation."""
    user: tuple[int, int, tuple[int, ...]] | None = None
    """(uid, gid, supplementary groups) of the first process, where the runtime reports it."""
    stop_signal: str = ""
    """Name of its stop signal (``SIGTERM``), where the runtime reports it."""
    restart_requested: bool = False
    """A person has requested that this attempt is replaced by another, without back-off."""


class SandboxStatus(Struct, frozen=True):
    """A pod sandbox in full, from CRI PodSandboxStatus."""

    id: SandboxID
    ready: bool
    attempt: int = 0
    created_at: float = 0.0
    ips: tuple[str, ...] = ()
    """The pod's addresses, primary first; empty with host networking."""
    host_network: bool = False
    runtime_handler: str = ""
    restart_requested: bool = False
    """A person has requested that the pod starts again in another sandbox."""


class PodRuntimeStatus(Struct, frozen=True, dict=True):
    """The sandboxes and containers of a pod in the runtime; both tuples are newest first.

    ``containers`` contains every attempt that the runtime still has, so one name can occur several times.
    """

    ref: PodRef
    sandboxes: tuple[SandboxStatus, ...] = ()
    containers: tuple[ContainerStatus, ...] = ()
    observed_at: float = 0.0

    @property
    def uid(self) -> PodUID:
        return self.ref.uid

    @property
    def ready_sandbox(self) -> SandboxStatus | None:
        """The newest sandbox if it is ready."""
        return self.sandboxes[0] if self.sandboxes and self.sandboxes[0].ready else None

    @property
    def ips(self) -> tuple[str, ...]:
        """Addresses of the ready sandbox."""
        sandbox = self.ready_sandbox
        return sandbox.ips if sandbox else ()

    def latest(self, name: str) -> ContainerStatus | None:
        """The newest attempt of the container with that name."""
        return next(iter(self.attempts(name)), None)

    def attempts(self, name: str) -> Sequence[ContainerStatus]:
        """All attempts of the container with that name, newest first."""
        return self._attempts.get(name, ())

    @cached_property
    def _attempts(self) -> Mapping[str, Sequence[ContainerStatus]]:
        """By name: a pod may have thousands of containers, each of which is looked up several times in a sync."""
        found: dict[str, list[ContainerStatus]] = {}
        for container in self.containers:
            found.setdefault(container.name, []).append(container)
        return found

    @property
    def running(self) -> tuple[ContainerStatus, ...]:
        """Containers in state running."""
        return tuple(c for c in self.containers if c.state is ContainerState.RUNNING)

    @property
    def unfinished(self) -> tuple[ContainerStatus, ...]:
        """Containers that have not ended: running, created or unknown."""
        return tuple(c for c in self.containers if c.state is not ContainerState.EXITED)


class PodEventType(StrEnum):
    """PLEG event types, named as in the Go kubelet."""

    CONTAINER_STARTED = "ContainerStarted"
    CONTAINER_DIED = "ContainerDied"
    CONTAINER_REMOVED = "ContainerRemoved"
    POD_SYNC = "PodSync"
    CONTAINER_CHANGED = "ContainerChanged"


class PodLifecycleEvent(Struct, frozen=True):
    """An event: the runtime's state of a pod has changed, so the pod's worker should sync."""

    uid: PodUID
    type: PodEventType
    container_id: ContainerID | None = None


class RuntimeConditions(Struct, frozen=True):
    """The runtime's health, from CRI Status."""

    runtime_ready: bool = False
    network_ready: bool = False
    message: str = ""
    """The reason why the runtime is not ready; if it is, why its network is not."""
    handlers: frozenset[str] = field(default_factory=frozenset)
    responding: bool = True
    """Whether these are the runtime's own; False: it has not replied."""

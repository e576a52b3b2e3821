"""What is remembered of a sandbox and of a container, across restarts and reboots.

The request's messages are kept as they came (``config``), since status calls give most of them back. Times are
nanoseconds since the epoch, as in CRI; 0 means "not yet".
"""

import hashlib
from enum import StrEnum

from google.protobuf.message import Message
from msgspec import Struct

from pykubelet.criserver.types.ids import ContainerID, SandboxID


class ProcessRef(Struct, frozen=True):
    """One process: its number, the tick at which it started and the boot, so that no other is taken for it."""

    pid: int
    started: int
    boot: str = ""
    """Boot id; empty in what was written before there was one."""


class SandboxPhase(StrEnum):
    """A sandbox's way. What a crash leaves in MAKING is undone; REMOVING is finished."""

    MAKING = "making"
    READY = "ready"
    STOPPED = "stopped"
    REMOVING = "removing"


class SandboxRecord(Struct, frozen=True):
    """One pod sandbox."""

    id: SandboxID
    name: str
    """What may exist once: pod name, namespace, uid and attempt."""
    handler: str
    config: bytes
    """``PodSandboxConfig``."""
    created_at: int
    phase: SandboxPhase = SandboxPhase.MAKING
    ips: tuple[str, ...] = ()
    infra: ProcessRef | None = None
    """The process that holds a shared PID namespace open, if there is one."""
    request: str = ""
    """Digest of what was asked for: a retry of the same request gets this sandbox."""
    boot: str = ""
    """Id of the boot in which it was made; empty in what was written before there was one."""


class ContainerPhase(StrEnum):
    """A container's way. MAKING and REMOVING are undone or finished by recovery; a start that was cut is undone too."""

    MAKING = "making"
    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    REMOVING = "removing"


class ContainerUser(Struct, frozen=True):
    """As whom the container's first process runs."""

    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = ()
    home: str = "/"
    name: str = ""


class ContainerRecord(Struct, frozen=True):
    """One container."""

    id: ContainerID
    name: str
    """What may exist once: container name and attempt in a sandbox."""
    sandbox_id: SandboxID
    config: bytes
    """``ContainerConfig``, with the resources last asked for."""
    created_at: int
    image_id: str
    image_ref: str
    log_path: str
    cgroup: str
    stop_signal: str
    user: ContainerUser = ContainerUser()
    phase: ContainerPhase = ContainerPhase.MAKING
    started_at: int = 0
    finished_at: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    process: ProcessRef | None = None
    monitor: ProcessRef | None = None
    """Its conmon."""
    pod_oom_kills: int = 0
    """How often the kernel had killed in its pod for want of memory when it was started."""
    request: str = ""
    """Digest of what was asked for: a retry of the same request gets this container."""


def request_digest(config: Message) -> str:
    """What a retried request is known by."""
    return hashlib.sha256(config.SerializeToString(deterministic=True)).hexdigest()

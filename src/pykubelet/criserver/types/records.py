"""Records of sandboxes and containers, stored across restarts and reboots.

The messages of requests are stored unchanged (``config``), since status calls return most of their fields. Times are
nanoseconds since the epoch, as in CRI; 0 means "not yet".
"""

import hashlib
from enum import StrEnum

from google.protobuf.message import Message
from msgspec import Struct

from pykubelet.criserver.types.ids import ContainerID, SandboxID


class ProcessRef(Struct, frozen=True):
    """One process, identified by its PID, the clock tick at which it started, and the boot."""

    pid: int
    started: int
    boot: str = ""
    """Boot id; empty in records of versions that did not store it."""


class SandboxPhase(StrEnum):
    """The phase of a sandbox. After a crash recovery undoes MAKING and finishes REMOVING."""

    MAKING = "making"
    READY = "ready"
    STOPPED = "stopped"
    REMOVING = "removing"


class SandboxRecord(Struct, frozen=True):
    """Stored state of a pod sandbox."""

    id: SandboxID
    name: str
    """Unique: pod name, namespace, uid and attempt."""
    handler: str
    config: bytes
    """``PodSandboxConfig``."""
    created_at: int
    phase: SandboxPhase = SandboxPhase.MAKING
    ips: tuple[str, ...] = ()
    infra: ProcessRef | None = None
    """The infra process that holds a shared PID namespace open, if there is one."""
    request: str = ""
    """Digest of the request: a retry of the same request gets this sandbox."""
    boot: str = ""
    """Id of the boot in which it was created; empty in records of versions that did not store it."""
    selinux_level: str = ""
    """The level of its processes and files; empty without SELinux, and in records of versions that allocated none."""


class ContainerPhase(StrEnum):
    """The phase of a container. Recovery undoes MAKING and interrupted starts, and finishes REMOVING."""

    MAKING = "making"
    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    REMOVING = "removing"


class ContainerUser(Struct, frozen=True):
    """The user and groups of the container's first process."""

    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = ()
    home: str = "/"
    name: str = ""


class ContainerRecord(Struct, frozen=True):
    """Stored state of a container."""

    id: ContainerID
    name: str
    """Unique in a sandbox: container name and attempt."""
    sandbox_id: SandboxID
    config: bytes
    """``ContainerConfig``, with the resources of the last update."""
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
    """The OOM kills that the kernel had counted in its pod when it was started."""
    request: str = ""
    """Digest of the request: a retry of the same request gets this container."""
    restore: str = ""
    """It is restored from a checkpoint: the directory of CRIU's images, which goes when it has been started."""
    namespace_process: ProcessRef | None = None
    """The process whose PID namespace it joins, by the path in its bundle. None: it joins none, or the version that
    created it did not store it."""


def request_digest(config: Message) -> str:
    """Compute the digest by which a retry of the same request is recognized."""
    return hashlib.sha256(config.SerializeToString(deterministic=True)).hexdigest()

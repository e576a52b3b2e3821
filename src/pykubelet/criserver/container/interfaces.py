"""What the container manager needs of others."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds
from pykubelet.criserver.conmon import Conmon
from pykubelet.criserver.container.apparmor import AppArmorProfiles
from pykubelet.criserver.events import EventHub
from pykubelet.criserver.oci import OciRuntime
from pykubelet.criserver.spec import Host, ImageDefaults, SandboxView
from pykubelet.criserver.store import Store
from pykubelet.criserver.types import ContainerID, SandboxID, UserNamespace
from pykubelet.linux.cgroups import CgroupDriver


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """An image that is present."""

    id: str
    reference: str
    """A digest reference where there is one, else the id."""
    defaults: ImageDefaults
    user: str
    stop_signal: str
    volumes: tuple[str, ...]


class RootFilesystems(Protocol):
    """Root file systems made of images."""

    async def prepare(self, image_id: str, container: ContainerID, user: UserNamespace | None) -> Path:
        """Mount a root file system for the container; its files have the ids of the user namespace, if there is one."""
        ...

    async def release(self, container: ContainerID) -> None:
        """Unmount and remove it; done is done when there is none."""
        ...


class Images(RootFilesystems, Protocol):
    """Images, and root file systems made of them."""

    def find(self, reference: str) -> ImageFacts | None:
        """An image by name, digest or id; None when it is not here."""
        ...


class Sandboxes(Protocol):
    """The sandboxes containers live in."""

    def view(self, sandbox: SandboxID) -> SandboxView:
        """NotFound; Permanent when it is not ready."""
        ...

    def handler(self, sandbox: SandboxID) -> str:
        """The handler that the sandbox was made with."""
        ...

    def infra_pid(self, sandbox: SandboxID) -> int:
        """The process that holds the sandbox's PID namespace, 0 when there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Directories:
    """Where things lie."""

    bundles: Path
    exits: Path
    seccomp: Path
    mapped: Path
    """Mounts that show the files of volumes with a pod's own ids; a directory for each container."""
    cdi: tuple[Path, ...] = ()
    """Vendors' files about devices; a later directory counts for more."""


@dataclass(frozen=True, slots=True)
class ContainerDeps:
    """Everything the manager works with."""

    store: Store
    images: Images
    sandboxes: Sandboxes
    runtimes: Mapping[str, OciRuntime]
    conmon: Conmon
    cgroups: CgroupDriver
    oom_kills: Callable[[str], int]
    """How often the kernel killed in a container's cgroup for want of memory. Blocks shortly."""
    pod_oom_kills: Callable[[str], int]
    """The same of the pod of a container's cgroup, where a container's may vanish with its last process; else 0."""
    events: EventHub
    host: Host
    directories: Directories
    tasks: asyncio.TaskGroup
    clock: Clock
    apparmor: AppArmorProfiles = field(default_factory=AppArmorProfiles)
    prelaunch_timeout: Seconds = 60.0
    """How long what was launched ahead waits for its start."""

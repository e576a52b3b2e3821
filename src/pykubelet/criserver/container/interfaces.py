"""The dependencies of the container manager: protocols of other components, directories, ``ContainerDeps``."""

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
    """A local image."""

    id: str
    reference: str
    """A reference by digest if there is one, else the id."""
    defaults: ImageDefaults
    user: str
    stop_signal: str
    volumes: tuple[str, ...]


class RootFilesystems(Protocol):
    """Root file systems made of images."""

    async def prepare(self, image_id: str, container: ContainerID, user: UserNamespace | None) -> Path:
        """Mount a root file system for the container, with the ids of its user namespace, if any."""
        ...

    async def release(self, container: ContainerID) -> None:
        """Unmount and remove it; no error if missing."""
        ...


class Images(RootFilesystems, Protocol):
    """Images, and root file systems made of them."""

    def find(self, reference: str) -> ImageFacts | None:
        """Find an image by name, digest or id; None: it is not present."""
        ...


class Sandboxes(Protocol):
    """The sandboxes of the containers."""

    def view(self, sandbox: SandboxID) -> SandboxView:
        """Return what a container needs of its sandbox. NotFound; Permanent: it is not ready."""
        ...

    def handler(self, sandbox: SandboxID) -> str:
        """The runtime handler of the sandbox."""
        ...

    def infra_pid(self, sandbox: SandboxID) -> int:
        """PID of the sandbox's infra process, which holds its PID namespace; 0: it has no infra process."""
        ...


@dataclass(frozen=True, slots=True)
class Directories:
    """The directories that the container manager uses."""

    bundles: Path
    exits: Path
    seccomp: Path
    mapped: Path
    """ID-mapped mounts of volumes; one directory for each container."""
    cdi: tuple[Path, ...] = ()
    """Directories of CDI files; later ones take precedence."""


@dataclass(frozen=True, slots=True)
class ContainerDeps:
    """The dependencies of the container manager."""

    store: Store
    images: Images
    sandboxes: Sandboxes
    runtimes: Mapping[str, OciRuntime]
    conmon: Conmon
    cgroups: CgroupDriver
    oom_kills: Callable[[str], int]
    """Counts the kernel's OOM kills in a container's cgroup. Blocks briefly."""
    pod_oom_kills: Callable[[str], int]
    """Counts the OOM kills in the pod of a container's cgroup, where that vanishes with its last process; else 0."""
    events: EventHub
    host: Host
    directories: Directories
    tasks: asyncio.TaskGroup
    clock: Clock
    apparmor: AppArmorProfiles = field(default_factory=AppArmorProfiles)
    prelaunch_timeout: Seconds = 60.0
    """How long a pre-launched container waits for its start before the launch is undone."""

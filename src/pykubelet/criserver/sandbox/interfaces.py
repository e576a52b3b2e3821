"""What the sandbox manager needs of others."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pykubelet.base.clock import Clock
from pykubelet.criserver.cni import Attached, AttachRequest
from pykubelet.criserver.conmon import Conmon
from pykubelet.criserver.container.interfaces import ImageFacts, RootFilesystems
from pykubelet.criserver.events import EventHub
from pykubelet.criserver.netns import PinnedNamespaces
from pykubelet.criserver.oci import OciRuntime
from pykubelet.criserver.spec import Host
from pykubelet.criserver.store import Store
from pykubelet.criserver.types import SandboxID
from pykubelet.linux.cgroups import CgroupDriver


class Containers(Protocol):
    """The containers in a sandbox."""

    async def stop_all(self, sandbox: SandboxID) -> None:
        """Kill them all."""
        ...

    async def remove_all(self, sandbox: SandboxID) -> None:
        """Remove them all but for their records, which go with the sandbox's."""
        ...


class PodNetwork(Protocol):
    """The network pods are attached to."""

    async def attach(self, request: AttachRequest) -> Attached:
        """Give a network namespace an address."""
        ...

    async def detach(self, sandbox: SandboxID, known: AttachRequest | None = None) -> None:
        """Take it back; an error means that it must be tried again. ``known``: what was asked for, if it has one."""
        ...

    async def check(self, sandbox: SandboxID) -> None:
        """Ask whether it is still attached as it was; an error says what is missing."""
        ...

    def held(self) -> list[SandboxID]:
        """The sandboxes that still have something."""
        ...


class PauseImages(RootFilesystems, Protocol):
    """Where the image of infra processes comes from."""

    async def ensure(self, reference: str) -> ImageFacts:
        """The image, pulled if it is not here. Errors as of a pull."""
        ...


@dataclass(frozen=True, slots=True)
class SandboxDirectories:
    """Where things lie. ``pause_image``, else ``infra``, is the program that holds PID namespaces open."""

    sandboxes: Path
    infra: str
    pause_image: str = ""


@dataclass(frozen=True, slots=True)
class SandboxDeps:
    """Everything the manager works with."""

    store: Store
    namespaces: PinnedNamespaces
    network: PodNetwork
    containers: Containers
    images: PauseImages
    runtimes: Mapping[str, OciRuntime]
    default_handler: str
    conmon: Conmon
    cgroups: CgroupDriver
    events: EventHub
    host: Host
    directories: SandboxDirectories
    tasks: asyncio.TaskGroup
    clock: Clock

"""Interfaces of the components that containers use: protocols, the facts of an image, directories."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from pykubelet.criserver.runtimes import ContainerRuntime
from pykubelet.criserver.spec import ImageDefaults, SandboxView
from pykubelet.criserver.types import ContainerID, ProcessRef, SandboxID, UserNamespace


class ImageFacts(Struct, frozen=True):
    """A local image."""

    id: str
    reference: str
    """A reference by digest if there is one, else the id."""
    defaults: ImageDefaults
    user: str
    stop_signal: str
    volumes: tuple[str, ...]
    artifact_type: str = ""
    """Not empty: it is an artifact, which can be mounted as an image volume only."""
    checkpoint: str = ""
    """Not empty: it has the files of a checkpoint of a container of that name."""


class RootFilesystems(Protocol):
    """Root file systems made of images."""

    async def prepare(self, image_id: str, container: ContainerID, user: UserNamespace | None, label: str = "") -> Path:
        """Mount a root file system for the container, with the ids of its user namespace, if any.

        ``label``: the SELinux label that all its files have; empty: none.
        """
        ...

    async def release(self, container: ContainerID) -> None:
        """Unmount and remove it; no error if missing."""
        ...


class Images(RootFilesystems, Protocol):
    """Images, and root file systems made of them."""

    def find(self, reference: str) -> ImageFacts | None:
        """Find an image by name, digest or id; None: it is not present."""
        ...

    async def pull(self, reference: str) -> None:
        """Pull an image without credentials of a pod. Errors as of PullImage."""
        ...

    async def check_use(self, image_id: str, name: str) -> None:
        """Check that the image policy permits the use of an image under the name by which it was requested.

        NotFound: it was just removed; Permanent: it is not permitted.
        """
        ...

    async def make_volumes(
        self, image: ImageFacts, container: ContainerID, *, covered: frozenset[str], user: UserNamespace | None
    ) -> Mapping[str, str]:
        """Create the volumes of the image, with its content, but for those at or below a covered path.

        Returns their directories on the host by path in the container. They are released with the root file system.
        """
        ...

    async def make_room(self) -> None:
        """If space is short, wait a limited time until the files of released root file systems are deleted."""
        ...


class Sandboxes(Protocol):
    """The sandboxes of the containers."""

    def view(self, sandbox: SandboxID) -> SandboxView:
        """Return what a container needs of its sandbox. NotFound; Permanent: it is not ready."""
        ...

    def check_ready(self, sandbox: SandboxID) -> None:
        """Check that containers may be created and started in it. NotFound; Permanent: not ready, or being stopped."""
        ...

    def handler(self, sandbox: SandboxID) -> str:
        """The runtime handler of the sandbox."""
        ...

    def runtime(self, sandbox: SandboxID) -> ContainerRuntime:
        """The runtime of the sandbox: the one of its handler."""
        ...

    def infra_process(self, sandbox: SandboxID) -> ProcessRef | None:
        """The sandbox's infra process, which holds its PID namespace; None: it has none."""
        ...


class ResourceClassFiles(Struct, frozen=True, kw_only=True):
    """Files that configure the classes of block I/O and RDT."""

    blockio: Path | None = None
    """The file of block I/O classes; None: there are none."""
    ignore_blockio: bool = False
    """Without that file, classes of containers are ignored instead of refused."""
    resctrl: Path = Path("/sys/fs/resctrl")
    ignore_rdt: bool = False
    """The same for RDT, if its file system is not mounted."""


class Directories(Struct, frozen=True, kw_only=True):
    """The directories of containers."""

    bundles: Path
    exits: Path
    seccomp: Path
    root_filesystems: Path
    checkpoints: Path
    """Directories of checkpoints that are being written, on a disk; one for each container."""
    restores: Path
    """Files of checkpoint archives that containers are restored from, on a disk; one directory for each container."""
    mapped: Path
    """ID-mapped mounts of volumes; one directory for each container."""
    cdi: tuple[Path, ...] = ()
    """Directories of CDI files; later ones take precedence."""
    classes: ResourceClassFiles = ResourceClassFiles()
    may_restore: bool = False
    """Whether containers may be restored from checkpoints: such a checkpoint may do what root on the node may do."""

    def bundle(self, container: ContainerID) -> Path:
        """A container's bundle: the directory with its spec and conmon's files."""
        return self.bundles / container

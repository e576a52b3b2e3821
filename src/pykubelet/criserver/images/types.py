"""What is known of images, and what passes between this room and others."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from msgspec import Struct

from pykubelet.base.errors import Permanent, Transient
from pykubelet.base.units import Bytes


class RegistryUnavailable(Transient):
    """No server that has the image answers, or those that do are out of order."""


class Unauthenticated(Permanent):
    """The registry wants credentials: there are none for it, or wrong ones."""


class Denied(Permanent):
    """The registry knows who we are, and will not give us this."""


class ImageConfig(Struct, frozen=True):
    """What an image's configuration says of the process to run (OCI image spec, ``config``)."""

    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    user: str = ""
    working_dir: str = ""
    volumes: tuple[str, ...] = ()
    stop_signal: str = ""
    labels: dict[str, str] = {}
    exposed_ports: tuple[str, ...] = ()


class Layer(Struct, frozen=True):
    """One layer of an image."""

    digest: str
    """Of the blob as it was sent, mostly compressed."""
    size: int
    """Bytes of the blob."""
    media_type: str
    diff_id: str
    """Of the plain tar stream."""
    chain_id: str
    """Of this layer and all below it; names the unpacked directory."""


class ImageRecord(Struct, frozen=True):
    """An image that is here, whole: all blobs are in the store."""

    id: str
    """Digest of the configuration, ``sha256:…``."""
    tags: tuple[str, ...]
    """Full references with a tag."""
    digests: tuple[str, ...]
    """Full references with the manifest's digest."""
    size: int
    """Bytes of all blobs, as they were sent."""
    config: ImageConfig
    stack: tuple[Layer, ...]
    """From the lowest up."""
    manifest: str
    """Digest of the manifest; it is a blob too."""
    pinned: bool = False
    """Never to be taken away by the kubelet's garbage collection."""

    @property
    def layers(self) -> tuple[str, ...]:
        """Chain ids from the lowest layer up."""
        return tuple(layer.chain_id for layer in self.stack)

    @property
    def blobs(self) -> frozenset[str]:
        """All that the store must keep for this image."""
        return frozenset({self.id, self.manifest} | {layer.digest for layer in self.stack})


@dataclass(frozen=True, slots=True)
class AuthConfig:
    """Credentials for one pull, as CRI's ``AuthConfig``. Never logged."""

    username: str = ""
    password: str = ""
    auth: str = ""
    """Base64 of ``username:password``."""
    identity_token: str = ""
    registry_token: str = ""
    server_address: str = ""
    """If set, the credentials are for this host only."""

    def __repr__(self) -> str:
        return "AuthConfig(…)"


@dataclass(frozen=True, slots=True)
class FsInfo:
    """How much images take on their file system."""

    mountpoint: str
    used_bytes: Bytes
    inodes_used: int


class Phase(Enum):
    """How far a layer is, or the image as a whole."""

    RESOLVING = "resolving"
    RESOLVED = "resolved"
    WAITING = "waiting"
    DOWNLOADING = "downloading"
    UNPACKING = "unpacking"
    DONE = "done"
    PRESENT = "present"


@dataclass(frozen=True, slots=True)
class Progress:
    """One step of a pull or an import. ``layer`` is empty for the image as a whole."""

    reference: str
    layer: str
    phase: Phase
    done: Bytes = Bytes(0)
    total: Bytes = Bytes(0)


OnProgress = Callable[[Progress], None]


def ignore_progress(_: Progress) -> None:
    """For callers that show nothing."""

"""The values and errors of images that other packages use too."""

from collections.abc import Callable
from enum import Enum

from msgspec import Struct

from pykubelet.base.errors import Permanent, Transient
from pykubelet.base.units import Bytes


class RegistryUnavailable(Transient):
    """No server of the image is reachable, or those that are reachable fail."""


class Unreachable(RegistryUnavailable):
    """There is no connection to the server, or it was lost."""


class Unauthenticated(Permanent):
    """The registry requires credentials, and they are missing or wrong."""


class Denied(Permanent):
    """The registry accepted the credentials, but they do not permit this access."""


class SignatureRejected(Permanent):
    """The image policy denies the image, or requires a signature that it does not have."""


class ImageConfig(Struct, frozen=True):
    """The process configuration of an image (OCI image spec, ``config``)."""

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
    """A layer of an image: its digests and size."""

    digest: str
    """Digest of the blob as transferred, mostly compressed."""
    size: int
    """Size of the blob in bytes."""
    media_type: str
    diff_id: str
    """Digest of the uncompressed tar stream."""
    chain_id: str
    """Digest of this layer and all layers below; it identifies the unpacked layer."""
    file: str = ""
    """Of an artifact: the path of the one file that the blob is. Its diff id is the blob's digest then."""


class VerifiedSignature(Struct, frozen=True):
    """A signature of an image that was verified when the image was pulled."""

    repository: str
    """The repository that the signature names (``host/path``)."""
    key: str
    """SHA-256 of the public key, hexadecimal."""


class ImageRecord(Struct, frozen=True):
    """A complete image: all its blobs are in the store."""

    id: str
    """Digest of the configuration, ``sha256:…``; that of the manifest for an artifact, whose configuration is empty."""
    tags: tuple[str, ...]
    """Full references with a tag."""
    digests: tuple[str, ...]
    """Full references with the manifest's digest."""
    size: int
    """Size of all blobs as transferred, in bytes."""
    config: ImageConfig
    stack: tuple[Layer, ...]
    """Layers from the lowest up."""
    manifest: str
    """Digest of the manifest; it is a blob too."""
    pinned: bool = False
    """Whether the kubelet's garbage collection must not remove the image."""
    artifact_type: str = ""
    """The type of an artifact, from which no container can be created; empty for a container image."""
    artifact_config: str = ""
    """Digest of an artifact's configuration; it is a blob too."""
    checkpoint: str = ""
    """The name of the container whose checkpoint it is, by its manifest's annotation; empty: it is no checkpoint."""
    verified: tuple[VerifiedSignature, ...] = ()
    """The signatures that were verified, as far as the image policy required one."""

    @property
    def layers(self) -> tuple[str, ...]:
        """Chain ids from the lowest layer up."""
        return tuple(layer.chain_id for layer in self.stack)

    @property
    def blobs(self) -> frozenset[str]:
        """The digests of all blobs that the store must keep for this image."""
        documents = {self.id, self.manifest, self.artifact_config} - {""}
        return frozenset(documents | {layer.digest for layer in self.stack})


class AuthConfig(Struct, frozen=True):
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


class FsInfo(Struct, frozen=True):
    """The disk usage of images on their file system."""

    mountpoint: str
    used_bytes: Bytes
    inodes_used: int


class ImageRemoval(Struct, frozen=True):
    """The result of a removal."""

    names: tuple[str, ...]
    """The names that were removed."""
    id: str
    """Id of the image if it was removed too; empty if it has other names."""
    freed: Bytes


class PrunedImages(Struct, frozen=True):
    """The images that were, or would be, removed because nothing uses them."""

    images: "tuple[ImageRecord, ...]"
    freed: Bytes


class Phase(Enum):
    """The phase of a pull, for a layer or for the image as a whole."""

    RESOLVING = "resolving"
    RESOLVED = "resolved"
    WAITING = "waiting"
    DOWNLOADING = "downloading"
    UNPACKING = "unpacking"
    DONE = "done"
    PRESENT = "present"


class Progress(Struct, frozen=True):
    """A step of a pull or an import. ``layer`` is empty for the image as a whole."""

    reference: str
    layer: str
    phase: Phase
    done: Bytes = Bytes(0)
    total: Bytes = Bytes(0)


OnProgress = Callable[[Progress], None]


def ignore_progress(_: Progress) -> None:
    """Ignore progress, for callers that do not show it."""

"""The calls of ImageService."""

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Protocol

import msgspec

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.errors import Invalid, NotFound
from pykubelet.base.units import KIB, MIB
from pykubelet.criserver.images.image_types import AuthConfig, FsInfo, ImageRecord, RegistryUnavailable
from pykubelet.criserver.server.call_table import Calls, chunks
from pykubelet.criserver.stats.stats_interfaces import LayerUsage
from pykubelet.pb import runtime_v1_pb2 as pb

_MAX_UID = 2**63 - 1
_MAX_DIGITS = 20
_MAX_LIST = 4 * MIB - 64 * KIB
"""Maximum size of the list of images in bytes: clients accept 4 MiB by default."""
_MAX_IMAGE = 64 * KIB
_log = logging.getLogger(__name__)


class ImageStore(Protocol):
    """The images of this node."""

    async def pull(self, reference: str, auth: AuthConfig | None) -> ImageRecord:
        """Pull an image."""
        ...

    def list(self) -> "list[ImageRecord]":
        """List all images."""
        ...

    def status(self, reference: str) -> ImageRecord | None:
        """Find an image by name, digest or id; None: it is not present."""
        ...

    async def remove(self, reference: str) -> None:
        """Remove an image."""
        ...

    async def fs_info(self) -> FsInfo:
        """Measure the disk usage of images."""
        ...


class WritableLayers(Protocol):
    """The writable layers of containers."""

    async def total(self) -> LayerUsage:
        """Measure the disk usage of all writable layers."""
        ...


class ImageCalls:
    """The calls of ImageService."""

    def __init__(self, images: ImageStore, layers: WritableLayers, *, clock: Clock) -> None:
        self._images = images
        self._layers = layers
        self._clock = clock
        self._guard = Guard("images.list", clock.monotonic)

    def register(self, calls: Calls) -> None:
        """Register the calls of this group."""
        calls.unary("ListImages", pb.ListImagesRequest, self.listed)
        calls.stream("StreamImages", pb.StreamImagesRequest, self.stream)
        calls.unary("ImageStatus", pb.ImageStatusRequest, self.status)
        calls.unary("PullImage", pb.PullImageRequest, self.pull)
        calls.unary("RemoveImage", pb.RemoveImageRequest, self.remove)
        calls.unary("ImageFsInfo", pb.ImageFsInfoRequest, self.fs_info)

    async def listed(self, request: pb.ListImagesRequest) -> pb.ListImagesResponse:
        """List all images, or the one that a filter names."""
        return pb.ListImagesResponse(images=fitted(self._found(request.filter)))

    async def stream(self, request: pb.StreamImagesRequest) -> AsyncIterator[pb.StreamImagesResponse]:
        """Stream the list of images in chunks."""
        for piece in chunks(self._found(request.filter)):
            yield pb.StreamImagesResponse(images=piece)

    async def status(self, request: pb.ImageStatusRequest) -> pb.ImageStatusResponse:
        """Return one image, with its configuration if ``verbose``; an empty response if it is not present."""
        record = self._images.status(_reference(request.image))
        if record is None:
            return pb.ImageStatusResponse()
        info = {"info": _details(record)} if request.verbose else {}
        return pb.ImageStatusResponse(image=image_of(record), info=info)

    async def pull(self, request: pb.PullImageRequest) -> pb.PullImageResponse:
        """Pull an image and return its id."""
        auth = auth_of(request.auth) if request.HasField("auth") else None
        with name_unavailable_registries():
            record = await self._images.pull(_reference(request.image), auth)
        return pb.PullImageResponse(image_ref=record.id)

    async def remove(self, request: pb.RemoveImageRequest) -> pb.RemoveImageResponse:
        """Remove an image; no error if it is not present."""
        try:
            await self._images.remove(_reference(request.image))
        except NotFound:
            pass
        return pb.RemoveImageResponse()

    async def fs_info(self, request: pb.ImageFsInfoRequest) -> pb.ImageFsInfoResponse:
        """Return the disk usage of images and of writable layers."""
        images, containers = await self._images.fs_info(), await self._layers.total()
        now = int(self._clock.now() * 1e9)
        return pb.ImageFsInfoResponse(
            image_filesystems=[_usage(images.mountpoint, images.used_bytes, images.inodes_used, now)],
            container_filesystems=[_usage(containers.mountpoint, containers.used, containers.inodes, now)],
        )

    def _found(self, wanted: pb.ImageFilter) -> list[pb.Image]:
        if wanted.image.image:
            record = self._images.status(wanted.image.image)
            return [] if record is None else [image_of(record)]
        found = []
        for record in self._guard.due(self._images.list(), lambda each: each.id):
            with self._guard.item(record.id):
                image = image_of(record)
                if image.ByteSize() > _MAX_IMAGE:
                    raise Invalid(f"image {record.id} takes {image.ByteSize()} bytes in a list; remove it by its id")
                found.append(image)
        return found


@contextmanager
def name_unavailable_registries() -> Iterator[None]:
    """Prefix errors of unavailable registries with the word that kubelets expect (cri-api ``pkg/errors``).

    Kubelets check the prefix only if the code is UNKNOWN, which Transient errors have.
    """
    try:
        yield
    except RegistryUnavailable as error:
        raise RegistryUnavailable(f"RegistryUnavailable: {error}") from error


def auth_of(auth: pb.AuthConfig) -> AuthConfig:
    """Convert credentials."""
    return AuthConfig(
        username=auth.username,
        password=auth.password,
        auth=auth.auth,
        identity_token=auth.identity_token,
        registry_token=auth.registry_token,
        server_address=auth.server_address,
    )


def image_of(record: ImageRecord) -> pb.Image:
    """Convert a record to a CRI message; the user is that of the image's configuration."""
    image = pb.Image(
        id=record.id,
        repo_tags=record.tags,
        repo_digests=record.digests,
        size=record.size,
        spec=pb.ImageSpec(image=record.id),
        pinned=record.pinned,
    )
    user = record.config.user.partition(":")[0]
    if user.isdecimal() and user.isascii() and len(user) <= _MAX_DIGITS and int(user) <= _MAX_UID:
        image.uid.value = int(user)
    elif user:
        image.username = user
    return image


def fitted(images: list[pb.Image], most: int = _MAX_LIST) -> list[pb.Image]:
    """Shorten the list to at most ``most`` bytes: images that are larger than their share keep one name or none."""
    if sum(image.ByteSize() for image in images) + 8 * len(images) <= most:
        return images
    share = most // len(images) - 8
    for image in images:
        for kept in (1, 0):
            if image.ByteSize() > share:
                del image.repo_tags[kept:]
                del image.repo_digests[kept:]
    _log.warning("list of images shortened: too large; some names are omitted", extra={"images": len(images)})
    return images


def _details(record: ImageRecord) -> str:
    """The details that CRI's Image has no field for, as JSON with the keys of containerd's response."""
    config = {
        "Entrypoint": record.config.entrypoint,
        "Cmd": record.config.cmd,
        "Env": record.config.env,
        "User": record.config.user,
        "WorkingDir": record.config.working_dir,
        "Volumes": {path: {} for path in record.config.volumes},
        "StopSignal": record.config.stop_signal,
        "Labels": record.config.labels,
        "ExposedPorts": {port: {} for port in record.config.exposed_ports},
    }
    layers = [
        {"digest": layer.digest, "size": layer.size, "mediaType": layer.media_type}
        | ({"file": layer.file} if layer.file else {})
        for layer in record.stack
    ]
    artifact = {"artifactType": record.artifact_type} if record.artifact_type else {}
    return msgspec.json.encode(
        {
            "chainID": record.layers[-1] if record.layers else "",
            "imageSpec": {
                "config": {key: value for key, value in config.items() if value},
                "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in record.stack]},
            },
            "manifest": record.manifest,
            "layers": layers,
            "verifiedSignatures": [{"repository": each.repository, "key": each.key} for each in record.verified],
        }
        | artifact
    ).decode()


def _reference(image: pb.ImageSpec) -> str:
    if not image.image:
        raise Invalid("an image reference is needed")
    return image.image


def _usage(mountpoint: str, used: int, inodes: int, now: int) -> pb.FilesystemUsage:
    return pb.FilesystemUsage(
        timestamp=now,
        fs_id=pb.FilesystemIdentifier(mountpoint=mountpoint),
        used_bytes=pb.UInt64Value(value=used),
        inodes_used=pb.UInt64Value(value=inodes),
    )

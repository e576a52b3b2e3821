"""Export of images as one archive that ctr, podman, skopeo, docker (of any version) and this server can load.

It is an OCI layout with an additional ``manifest.json``, in which docker finds the same blobs under the same names.
Sources: OCI image specification, "Image Layout"; docker image specification 1.2, "Combined Image JSON".
"""

import tarfile
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from pykubelet.base.units import MIB
from pykubelet.criserver.images import limits, manifests
from pykubelet.criserver.images.archive import NAME, REF_NAME
from pykubelet.criserver.images.content import ContentStore
from pykubelet.criserver.images.image_types import ImageRecord
from pykubelet.criserver.images.manifests import Descriptor
from pykubelet.criserver.images.reference import parse
from pykubelet.linux.errors import wrap

_LAYOUT = b'{"imageLayoutVersion":"1.0.0"}'
_PIECE = 1 * MIB
_DOCKER_HUB = ("docker.io/library/", "docker.io/")


class ExportedImage(Struct, frozen=True):
    """An image to export, and its names in the archive."""

    image: ImageRecord
    tags: tuple[str, ...]


def archive_pieces(chosen: Sequence[ExportedImage], store: ContentStore) -> Iterator[bytes]:
    """Yield the bytes of the archive in pieces, none of them empty. Blocking; no blob may be removed until the end."""
    entries = [
        Descriptor(
            one.image.manifest,
            store.path(one.image.manifest).stat().st_size,
            _type_of(one.image, store),
            annotations={NAME: tag, REF_NAME: parse(tag).tag} if tag else None,
        )
        for one in chosen
        for tag in one.tags or ("",)
    ]
    for_docker = [_for_docker(one) for one in chosen if not one.image.artifact_type]
    yield from _small("oci-layout", _LAYOUT)
    yield from _small("index.json", manifests.encode_index(entries))
    yield from _small("manifest.json", msgspec.json.encode(for_docker))
    for digest in sorted({blob for one in chosen for blob in one.image.blobs}):
        yield from _blob(digest, store)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _for_docker(one: ExportedImage) -> dict[str, object]:
    return {
        "Config": _name(one.image.id),
        "RepoTags": [_short(tag) for tag in one.tags],
        "Layers": [_name(layer.digest) for layer in one.image.stack],
    }


def _short(tag: str) -> str:
    """The short form of a tag as docker shows it: old versions take a name with docker.io for another image."""
    return next((tag.removeprefix(front) for front in _DOCKER_HUB if tag.startswith(front)), tag)


def _type_of(image: ImageRecord, store: ContentStore) -> str:
    return manifests.media_type_of(store.read(image.manifest, limits.MAX_DOCUMENT))


def _name(digest: str) -> str:
    return "blobs/" + digest.replace(":", "/")


def _small(name: str, data: bytes) -> Iterator[bytes]:
    yield _header(name, len(data)) + data + bytes(-len(data) % tarfile.BLOCKSIZE)


def _blob(digest: str, store: ContentStore) -> Iterator[bytes]:
    path = store.path(digest)
    try:
        with path.open("rb", buffering=0) as file:
            size = path.stat().st_size
            yield _header(_name(digest), size)
            while piece := file.read(_PIECE):
                yield piece
    except OSError as error:
        raise wrap(error, f"cannot read {path}") from error
    if padding := bytes(-size % tarfile.BLOCKSIZE):
        yield padding


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf(tarfile.PAX_FORMAT)

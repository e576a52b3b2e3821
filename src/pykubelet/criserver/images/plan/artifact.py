"""The files of an artifact: a manifest whose configuration is not that of a container image. Pure.

Each blob is one file, as in CRI-O: it is named by the annotation of OCI or of the model specification, or else by its
digest, as podman does. The publisher of an artifact chooses the names, so they are checked before any file is made.
Sources: OCI image specification 1.1, "Guidelines for Artifact Usage"; CNCF model specification.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from pykubelet.base.errors import Invalid
from pykubelet.base.text import printable
from pykubelet.criserver.images.image_types import Layer
from pykubelet.criserver.images.manifests import Descriptor, digest_of

_NAMES: Final = (
    "org.opencontainers.image.title",
    "org.cncf.model.filepath",
    "org.cnai.model.filepath",
)
"""Annotations that name the file of a blob; the first one that is set counts."""
_MAX_COMPONENT: Final = 255
_MAX_PATH: Final = 1024
_MAX_DEPTH: Final = 32
_SHOWN: Final = 80


def files_of(blobs: Sequence[Descriptor], what: str) -> tuple[Layer, ...]:
    """Return the layers of an artifact, one for the file of each blob.

    A layer's diff id is the digest of its blob. Its chain id does not depend on other layers, so that artifacts share
    equal files. Raises Invalid, which names ``what`` and the blob, for a name that leaves the volume, is too long, is
    that of another blob, or is a directory of another blob's name.
    """
    layers: dict[str, Layer] = {}
    directories: dict[str, str] = {}
    for blob in blobs:
        path = _path(blob, what)
        parts = path.split("/")
        above = ["/".join(parts[:count]) for count in range(1, len(parts))]
        taken = next((each for each in (path, *above) if each in layers), None)
        if taken is not None or path in directories:
            other = layers[taken].digest if taken is not None else directories[path]
            raise Invalid(
                f"{what}: the file name {_show(path)} of blob {blob.digest} collides with that of blob {other}"
            )
        directories.update((each, blob.digest) for each in above)
        chain_id = digest_of(f"file {path}\n{blob.digest}".encode())
        layers[path] = Layer(blob.digest, blob.size, blob.media_type, blob.digest, chain_id, path)
    return tuple(layers.values())


def _path(blob: Descriptor, what: str) -> str:
    """The relative path of a blob's file. Raises Invalid."""
    annotations: Mapping[str, str] = blob.annotations or {}
    name = next((annotations[key] for key in _NAMES if annotations.get(key)), blob.digest.replace(":", "-"))
    problem = _problem(name)
    if problem:
        raise Invalid(f"{what}: the file name {_show(name)} of blob {blob.digest} {problem}")
    return name


def _problem(name: str) -> str:
    """The reason why a name is not that of a file in the volume; empty if it is one."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "is not valid Unicode"
    parts = name.split("/")
    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in name):
        return "has a control character"
    if name.startswith("/"):
        return "must be relative"
    if any(part in ("", ".", "..") for part in parts):
        return "must not have empty components, '.' or '..'"
    if size > _MAX_PATH or any(len(part.encode()) > _MAX_COMPONENT for part in parts):
        return f"is too long: {size} bytes; {_MAX_PATH} are allowed, and {_MAX_COMPONENT} for each component"
    if len(parts) > _MAX_DEPTH:
        return f"has {len(parts)} components; at most {_MAX_DEPTH} are allowed"
    return ""


def _show(name: str) -> str:
    shown = name.encode(errors="backslashreplace").decode()
    return printable(repr(shown[:_SHOWN]) + ("…" if len(shown) > _SHOWN else ""))

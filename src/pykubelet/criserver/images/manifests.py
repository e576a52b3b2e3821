"""Parsing and validation of manifests, indexes and configurations of images. Pure.

The type of a document is its media type, and its content must agree (CVE-2021-41190): one digest must not mean an image
to one reader and a list of images to another. Sources: OCI image specification 1.1; Docker image manifest v2.2.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from pykubelet.base.errors import Invalid, Unsupported
from pykubelet.base.files.decoding import decode_json
from pykubelet.base.text import printable
from pykubelet.base.units import GIB
from pykubelet.criserver.images.image_types import ImageConfig, Layer
from pykubelet.criserver.images.limits import MAX_LAYERS, MAX_MANIFESTS, check_config, check_parts
from pykubelet.criserver.images.reference import is_digest

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
OCI_LAYER = "application/vnd.oci.image.layer.v1.tar"
EMPTY_DIGEST = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
EMPTY = b"{}"
"""The configuration of artifacts that have none; registries need not have it as a blob."""
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"

MANIFESTS = (OCI_MANIFEST, DOCKER_MANIFEST)
INDEXES = (OCI_INDEX, DOCKER_LIST)
OUTDATED = (
    "application/vnd.docker.distribution.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v1+prettyjws",
)
_CONFIGS = (OCI_CONFIG, DOCKER_CONFIG)
_LAYER = re.compile(
    r"application/vnd\.(?:oci\.image\.layer(?:\.nondistributable)?\.v1\.tar(?:\+gzip|\+zstd)?"
    r"|docker\.image\.rootfs\.(?:foreign\.)?diff\.tar(?:\.gzip|\.zstd)?)"
)
_CHECKPOINT = ("org.criu.checkpoint.container.name", "io.kubernetes.cri-o.annotations.checkpoint.name")
"""Annotations of images of checkpoints: that of checkpointctl, and an older one of CRI-O."""
_FOREIGN = ("nondistributable", ".foreign.")
_MAX_BLOB = 1024 * GIB
_MAX_TYPE = 256


class Platform(Struct, frozen=True):
    """The platform of an image or of this machine."""

    architecture: str = ""
    os: str = ""
    variant: str = ""


class Descriptor(Struct, frozen=True):
    """A reference to a blob: its media type, digest and size. ``urls`` of foreign hosts are ignored."""

    digest: str
    size: int
    media_type: str = field(name="mediaType", default="")
    platform: Platform | None = None
    annotations: dict[str, str] | None = None
    artifact_type: str = field(name="artifactType", default="")


class Manifest(Struct, frozen=True):
    """The manifest of one image for one platform, or of an artifact."""

    config: Descriptor
    layers: tuple[Descriptor, ...]
    artifact_type: str = ""
    """Not empty: the blobs are those of an artifact, and not layers."""
    checkpoint: str = ""
    """Not empty: the layers have the files of a checkpoint of a container of that name."""


class ParsedConfig(Struct, frozen=True):
    """The parts of an image's configuration that are used."""

    config: ImageConfig
    diff_ids: tuple[str, ...]
    platform: Platform


class _Document(Struct, frozen=True):
    """The fields of all document types, to distinguish them."""

    schema_version: int = field(name="schemaVersion", default=0)
    media_type: str = field(name="mediaType", default="")
    config: Descriptor | None = None
    layers: tuple[Descriptor, ...] | None = None
    artifact_type: str = field(name="artifactType", default="")
    manifests: tuple[Descriptor, ...] | None = None
    annotations: dict[str, str] | None = None
    fs_layers: msgspec.Raw | None = field(name="fsLayers", default=None)


class _TypedManifest(Struct, frozen=True):
    media_type: str = field(name="mediaType", default="")


class _Process(Struct, frozen=True):
    entrypoint: tuple[str, ...] | None = field(name="Entrypoint", default=None)
    cmd: tuple[str, ...] | None = field(name="Cmd", default=None)
    env: tuple[str, ...] | None = field(name="Env", default=None)
    user: str | None = field(name="User", default=None)
    working_dir: str | None = field(name="WorkingDir", default=None)
    volumes: dict[str, Any] | None = field(name="Volumes", default=None)
    stop_signal: str | None = field(name="StopSignal", default=None)
    labels: dict[str, str] | None = field(name="Labels", default=None)
    exposed_ports: dict[str, Any] | None = field(name="ExposedPorts", default=None)


class _RootFs(Struct, frozen=True):
    type: str = ""
    diff_ids: tuple[str, ...] = ()


class _Config(Struct, frozen=True):
    rootfs: _RootFs
    architecture: str = ""
    os: str = ""
    variant: str | None = None
    config: _Process | None = None


def digest_of(data: bytes) -> str:
    """Compute the digest of a small document."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest_as(digest: str, data: bytes) -> str:
    """Compute the digest of a small document by the algorithm of another, valid digest."""
    algorithm = digest.partition(":")[0]
    return f"{algorithm}:{hashlib.new(algorithm, data).hexdigest()}"


def media_type_of(data: bytes, default: str = OCI_MANIFEST) -> str:
    """The media type in a document; it is optional in OCI documents."""
    try:
        return decode_json(data, _TypedManifest).media_type or default
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return default


def parse_index(data: bytes, media_type: str, what: str) -> tuple[Descriptor, ...]:
    """Parse an index; returns its manifests. Raises Invalid, which names ``what``."""
    document = _document(data, media_type, what)
    if document.manifests is None or document.config or document.layers or document.fs_layers:
        raise Invalid(f"{what}: its media type says index ({media_type}), its content does not")
    if len(document.manifests) > MAX_MANIFESTS:
        raise Invalid(f"{what} is an index of {len(document.manifests)} entries; at most {MAX_MANIFESTS} are read")
    for entry in document.manifests:
        _check(entry, what)
    return document.manifests


def parse_manifest(data: bytes, media_type: str, what: str) -> Manifest:
    """Parse a manifest and check its descriptors.

    What has another configuration than an image is an artifact (OCI image specification 1.1, "Guidelines for Artifact
    Usage"). Raises Invalid, which names ``what``, or Unsupported if it is something else.
    """
    document = _document(data, media_type, what)
    if document.manifests is not None or document.config is None or document.layers is None or document.fs_layers:
        raise Invalid(f"{what}: its media type says image manifest ({media_type}), its content does not")
    _check(document.config, what)
    is_artifact = document.config.media_type not in _CONFIGS
    if is_artifact and media_type != OCI_MANIFEST:
        raise Unsupported(f"{what} has a configuration of type {document.config.media_type[:80]!r}, it is no image")
    if len(document.layers) > MAX_LAYERS:
        raise Invalid(f"{what} has {len(document.layers)} layers; at most {MAX_LAYERS} can be stacked")
    for layer in document.layers:
        _check(layer, what)
        if not is_artifact and not _LAYER.fullmatch(layer.media_type):
            raise Unsupported(f"{what}: layer {layer.digest} is of unknown type {layer.media_type[:80]!r}")
    kind = _artifact_type(document, what) if is_artifact else ""
    return Manifest(document.config, document.layers, kind, "" if is_artifact else _checkpoint(document))


def parse_blobs(data: bytes, media_type: str, what: str) -> tuple[Descriptor, ...]:
    """Parse a manifest of any kind; returns its blobs but its configuration. Raises Invalid, which names ``what``."""
    document = _document(data, media_type, what)
    if media_type not in MANIFESTS or document.manifests is not None or document.layers is None:
        raise Invalid(f"{what}: not a manifest with blobs ({media_type})")
    if len(document.layers) > MAX_LAYERS:
        raise Invalid(f"{what} has {len(document.layers)} blobs; at most {MAX_LAYERS} are read")
    for blob in document.layers:
        _check(blob, what)
    return document.layers


def _checkpoint(document: _Document) -> str:
    """The name of the container whose checkpoint an image is; empty: it is an ordinary image."""
    annotations = document.annotations or {}
    return next((annotations[key][:_MAX_TYPE] for key in _CHECKPOINT if annotations.get(key)), "")


def _artifact_type(document: _Document, what: str) -> str:
    """The type of an artifact: that of its configuration if the manifest names none. Raises Invalid."""
    found = document.artifact_type or (document.config.media_type if document.config else "")
    if not found or len(found) > _MAX_TYPE or not found.isascii() or not found.isprintable():
        raise Invalid(f"{what} is an artifact of type {found[:80]!r}, which is no media type")
    return found


def parse_config(data: bytes, what: str) -> ParsedConfig:
    """Parse an image's configuration. Raises Invalid, which names ``what`` and a field that is too large."""
    check_parts(data, f"{what}: its configuration")
    try:
        parsed = decode_json(data, _Config)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"{what}: its configuration is invalid: {error}") from error
    if len(parsed.rootfs.diff_ids) > MAX_LAYERS:
        raise Invalid(
            f"{what}: its configuration names {len(parsed.rootfs.diff_ids)} layers; {MAX_LAYERS} can be stacked"
        )
    for diff_id in parsed.rootfs.diff_ids:
        if not is_digest(diff_id):
            raise Invalid(f"{what}: its configuration names a layer {diff_id[:80]!r}, which is not a digest")
    process = parsed.config or _Process()
    config = ImageConfig(
        entrypoint=process.entrypoint or (),
        cmd=process.cmd or (),
        env=process.env or (),
        user=process.user or "",
        working_dir=process.working_dir or "",
        volumes=tuple(process.volumes or ()),
        stop_signal=process.stop_signal or "",
        labels=process.labels or {},
        exposed_ports=tuple(process.exposed_ports or ()),
    )
    check_config(config, what)
    platform = Platform(parsed.architecture, parsed.os, parsed.variant or "")
    return ParsedConfig(config, parsed.rootfs.diff_ids, platform)


def is_foreign(media_type: str) -> bool:
    """Whether a layer is foreign, so that registries need not have it; it is never fetched from other hosts."""
    return any(word in media_type for word in _FOREIGN)


def stack(manifest: Manifest, diff_ids: Sequence[str], what: str) -> tuple[Layer, ...]:
    """Combine manifest and configuration to layers with chain ids (OCI image spec, "Layer ChainID").

    Raises Invalid if their numbers of layers differ.
    """
    if len(manifest.layers) != len(diff_ids):
        raise Invalid(f"{what}: the manifest has {len(manifest.layers)} layers, the configuration {len(diff_ids)}")
    layers = []
    chain = ""
    for blob, diff_id in zip(manifest.layers, diff_ids, strict=True):
        chain = digest_of(f"{chain} {diff_id}".encode()) if chain else diff_id
        layers.append(Layer(blob.digest, blob.size, blob.media_type, diff_id, chain))
    return tuple(layers)


def choose(entries: Iterable[Descriptor], wanted: Platform, what: str) -> Descriptor:
    """Choose the best entry for this machine. Raises Invalid, which lists the available platforms."""
    entries = [entry for entry in entries if entry.media_type in (*MANIFESTS, *INDEXES)]
    ranked = [(rank, entry) for entry in entries if (rank := _rank(entry.platform, wanted)) is not None]
    if not ranked:
        found = ", ".join(sorted({_name(entry.platform) for entry in entries})[:20]) or "nothing"
        raise Invalid(f"{what} has no image for {_name(wanted)}; it has {found}")
    return min(ranked, key=lambda pair: pair[0])[1]


def check_platform(found: Platform, wanted: Platform, what: str) -> None:
    """Raise Invalid if an image is for another platform."""
    if found.os and _rank(found, wanted) is None:
        raise Invalid(f"{what} is for {_name(found)}, which cannot run here ({_name(wanted)})")


def _rank(found: Platform | None, wanted: Platform) -> int | None:
    """The distance from the wanted platform, 0 for an exact match; None if it cannot run here."""
    if found is None or not found.architecture:
        return 100  # no platform given: used only if there is no better entry
    if (found.os.lower() or wanted.os) != wanted.os:
        return None
    have, want = _variant(found), _variant(wanted)
    if _architecture(found) == _architecture(wanted):
        # A newer machine runs images for an older one, never the other way round.
        return want - have if have <= want else None
    if _architecture(found) == _NARROW.get(_architecture(wanted)):
        return _NARROW_RANK - have if have <= _NEWEST_NARROW else None  # the newest variant first
    return None


_NARROW = {"amd64": "386", "arm64": "arm"}
"""The 32-bit architectures whose programs 64-bit kernels run, too (as containerd chooses)."""
_NARROW_RANK = 50
_NEWEST_NARROW = 8
"""The newest variant of the 32-bit architectures."""
_ARCHITECTURES = {
    "x86_64": "amd64",
    "x86-64": "amd64",
    "aarch64": "arm64",
    "armhf": "arm",
    "armel": "arm",
    "i386": "386",
}
"""Names that some tools use instead of those of the specification."""
_FIRST_VARIANT = {"amd64": 1, "arm64": 8, "arm": 7}


def _architecture(platform: Platform) -> str:
    name = platform.architecture.lower()
    return _ARCHITECTURES.get(name, name)


def _variant(platform: Platform) -> int:
    default = 6 if platform.architecture == "armel" else _FIRST_VARIANT.get(_architecture(platform), 0)
    digits = platform.variant.removeprefix("v").partition(".")[0]
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 4 else default


def _name(platform: Platform | None) -> str:
    if platform is None:
        return "an unnamed platform"
    return printable("/".join(part[:40] for part in (platform.os, platform.architecture, platform.variant) if part))


def _document(data: bytes, media_type: str, what: str) -> _Document:
    check_parts(data, what)
    try:
        document = decode_json(data, _Document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"{what}: not a manifest: {error}") from error
    if document.schema_version == 1:
        raise Unsupported(
            f"{what} has manifest schema 1, which is not supported any more; push it again with a newer program"
        )
    if document.schema_version != 2:
        raise Invalid(f"{what} has manifest schema {document.schema_version}; only 2 is supported")
    if document.media_type and document.media_type != media_type:
        raise Invalid(f"{what} came as {media_type} but calls itself {printable(document.media_type[:80])}")
    return document


def _check(descriptor: Descriptor, what: str) -> None:
    if not is_digest(descriptor.digest):
        raise Invalid(f"{what} names a blob {descriptor.digest[:80]!r}, which is not a digest")
    if not 0 <= descriptor.size <= _MAX_BLOB:
        raise Invalid(f"{what} names a blob of {descriptor.size} bytes")


def encode_manifest(config: Descriptor, layers: Sequence[Descriptor]) -> bytes:
    """Encode an OCI manifest, for an image that was imported without one."""
    return msgspec.json.encode(
        {
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": _encode(config),
            "layers": [_encode(layer) for layer in layers],
        }
    )


def encode_index(entries: Sequence[Descriptor]) -> bytes:
    """Encode an OCI index."""
    return msgspec.json.encode(
        {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [_encode(entry) for entry in entries]}
    )


def _encode(descriptor: Descriptor) -> Mapping[str, object]:
    fields: dict[str, object] = {
        "mediaType": descriptor.media_type,
        "digest": descriptor.digest,
        "size": descriptor.size,
    }
    if descriptor.annotations:
        fields["annotations"] = descriptor.annotations
    return fields

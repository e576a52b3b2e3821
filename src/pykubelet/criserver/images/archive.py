"""Import of images from archives: tar files of OCI layouts or of ``docker save``, optionally compressed. Blocking.

An archive is untrusted: names in it are only looked up, never opened, and every blob is checked against its digest.
Sources: OCI image specification, "Image Layout"; docker image specification 1.2, "Combined Image JSON".
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import IO

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from pykubelet.base.errors import Invalid
from pykubelet.base.files.decoding import decode_json
from pykubelet.base.units import GIB, MIB, Bytes
from pykubelet.criserver.images import limits, manifests
from pykubelet.criserver.images.content import ContentStore
from pykubelet.criserver.images.manifests import Descriptor, Platform
from pykubelet.criserver.images.reference import is_digest, parse
from pykubelet.criserver.unpack.limits import BadLayer, Limits
from pykubelet.criserver.unpack.stream import ByteStream
from pykubelet.criserver.unpack.tarstream import Entry, EntryKind, TarReader

_BLOBS = "blobs/"
NAME = "io.containerd.image.name"
REF_NAME = "org.opencontainers.image.ref.name"
"""Annotations of the entries of an index: the full reference, as containerd writes it, and often only the tag."""
_LIMITS = Limits(max_bytes=Bytes(512 * GIB), max_entries=100_000, max_name=512)
"""All names are kept in memory until the end; those of images are digests and short paths."""
_MAX_PADDING = 64 * MIB
_MAX_NESTED = 3


class ArchivedImage(Struct, frozen=True):
    """An image of an archive whose blobs are all in the store."""

    manifest: Descriptor
    tags: tuple[str, ...]
    genuine: bool
    """Whether the manifest was part of the archive, so that its digest is known elsewhere too."""


class _DockerImage(Struct, frozen=True):
    config: str = msgspec.field(name="Config")
    layers: tuple[str, ...] = msgspec.field(name="Layers")
    tags: tuple[str, ...] | None = msgspec.field(name="RepoTags", default=None)


class _Contents(Struct):
    """The content of an archive: for each name the blob, or the target of the link."""

    blobs: dict[str, Descriptor] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)

    def find(self, name: str) -> Descriptor | None:
        for _ in range(3):
            if name not in self.links:
                break
            name = self.links[name]
        return self.blobs.get(name)


def read_archive(
    file: IO[bytes], what: str, store: ContentStore, platform: Platform, stop: Callable[[], bool]
) -> list[ArchivedImage]:
    """Put every blob of the archive into the store and return the images for this platform.

    The file is read once, from its beginning to its end, so it may be a pipe. Raises Invalid if it is not an image
    archive, is damaged, or has no image for this platform. ``stop`` is called between blobs.
    """
    stream = ByteStream(file, _LIMITS)
    try:
        contents = _store_all(TarReader(stream, _LIMITS), store, stop)
        _end(stream)
    except BadLayer as error:
        raise Invalid(f"{what} is not an image archive: {error}") from error
    finally:
        stream.close()
    if "index.json" in contents.blobs:
        return list(_from_layout(contents, store, platform, what))
    if "manifest.json" in contents.blobs:
        return list(_from_docker(contents, store, what))
    raise Invalid(f"{what} is not an image archive: it has neither index.json (OCI) nor manifest.json (docker)")


def _end(stream: ByteStream) -> None:
    """Read the padding at the end, to detect truncated or damaged compression; bounded, as a pipe may never end."""
    begin = stream.position
    while stream.some(_MAX_PADDING):
        if stream.position - begin > _MAX_PADDING:
            raise BadLayer("it goes on after its end")


def _store_all(reader: TarReader, store: ContentStore, stop: Callable[[], bool]) -> _Contents:
    contents = _Contents()
    for entry in reader:
        if stop():
            raise Invalid("the import was stopped")
        name = os.path.normpath(entry.name).lstrip("/")
        if entry.kind is EntryKind.FILE:
            contents.blobs[name] = _store_one(name, entry, reader, store)
        elif entry.kind is EntryKind.SYMLINK:
            contents.links[name] = os.path.normpath(f"{os.path.dirname(name)}/{entry.link}").lstrip("/")  # noqa: PTH120
        elif entry.kind is EntryKind.HARDLINK:
            contents.links[name] = os.path.normpath(entry.link).lstrip("/")
    return contents


def _store_one(name: str, entry: Entry, reader: TarReader, store: ContentStore) -> Descriptor:
    digest = name.removeprefix(_BLOBS).replace("/", ":") if name.startswith(_BLOBS) else ""
    if is_digest(digest):
        if not store.has(digest, entry.size):
            store.add_stream(reader.data(), entry.size, digest)
        return Descriptor(digest, entry.size)
    # Docker's own layout: the name does not contain the digest.
    return store.add_stream(reader.data(), entry.size)


def _from_layout(contents: _Contents, store: ContentStore, platform: Platform, what: str) -> Iterator[ArchivedImage]:
    data = store.read(contents.blobs["index.json"].digest, limits.MAX_DOCUMENT)
    by_tags: dict[str, list[Descriptor]] = {}
    for entry in manifests.parse_index(data, manifests.media_type_of(data, manifests.OCI_INDEX), what):
        by_tags.setdefault(_tag(entry), []).append(entry)
    for tag, entries in by_tags.items():
        groups = [entries] if tag else [[entry] for entry in entries]
        for group in groups:
            chosen = _resolve(group, store, platform, what, _MAX_NESTED)
            if chosen is not None:
                yield ArchivedImage(
                    Descriptor(chosen.digest, chosen.size, chosen.media_type), (tag,) if tag else (), genuine=True
                )


def _resolve(
    entries: Iterable[Descriptor], store: ContentStore, platform: Platform, what: str, depth: int
) -> Descriptor | None:
    """Choose the manifest; entries whose blobs are not in the archive (those of other platforms) do not count."""
    present = [entry for entry in entries if store.has(entry.digest, entry.size)]
    if not present:
        return None
    chosen = manifests.choose(present, platform, what)
    if chosen.media_type not in manifests.INDEXES:
        return chosen
    if depth == 0:
        raise Invalid(f"{what}: indexes within indexes without an end")
    data = store.read(chosen.digest, limits.MAX_DOCUMENT)
    return _resolve(manifests.parse_index(data, chosen.media_type, what), store, platform, what, depth - 1)


def _tag(entry: Descriptor) -> str:
    annotations = entry.annotations or {}
    for name in (annotations.get(NAME, ""), annotations.get(REF_NAME, "")):
        # A bare tag ("latest") has no repository.
        if "/" in name or ":" in name:
            with suppress(Invalid):
                reference = parse(name)
                return str(replace(reference, digest="")) if reference.tag else ""
    return ""


def _from_docker(contents: _Contents, store: ContentStore, what: str) -> Iterator[ArchivedImage]:
    data = store.read(contents.blobs["manifest.json"].digest, limits.MAX_DOCUMENT)
    limits.check_parts(data, f"{what}: its manifest.json")
    try:
        images = decode_json(data, tuple[_DockerImage, ...])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"{what}: its manifest.json is invalid: {error}") from error
    if len(images) > limits.MAX_MANIFESTS:
        raise Invalid(f"{what} has {len(images)} images; at most {limits.MAX_MANIFESTS} are read")
    for image in images:
        if len(image.layers) > limits.MAX_LAYERS:
            raise Invalid(f"{what}: an image of {len(image.layers)} layers; at most {limits.MAX_LAYERS} can be stacked")
        limits.check_names(image.tags or (), f"{what}: an image")
        config = contents.find(os.path.normpath(image.config))
        layers = [contents.find(os.path.normpath(name)) for name in image.layers]
        missing = [name for name, found in zip(image.layers, layers, strict=True) if found is None]
        if config is None or missing:
            raise Invalid(
                f"{what}: its manifest.json names {(missing or [image.config])[0][:200]!r}, which is not in it"
            )
        typed = [Descriptor(found.digest, found.size, _layer_type(store, found)) for found in layers if found]
        manifest = manifests.encode_manifest(Descriptor(config.digest, config.size, manifests.OCI_CONFIG), typed)
        digest = manifests.digest_of(manifest)
        store.add(digest, manifest)
        try:
            tags = tuple(str(parse(tag)) for tag in image.tags or ())
        except Invalid as error:
            raise Invalid(f"{what}: {error}") from error
        yield ArchivedImage(Descriptor(digest, len(manifest), manifests.OCI_MANIFEST), tags, genuine=False)


def _layer_type(store: ContentStore, blob: Descriptor) -> str:
    with store.path(blob.digest).open("rb") as file:
        magic = file.read(4)
    if magic.startswith(b"\x1f\x8b"):
        return f"{manifests.OCI_LAYER}+gzip"
    return f"{manifests.OCI_LAYER}+zstd" if magic == b"\x28\xb5\x2f\xfd" else manifests.OCI_LAYER

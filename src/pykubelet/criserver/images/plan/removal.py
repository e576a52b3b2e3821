"""Objects to remove with a name of an image, or with unused images. Pure."""

from collections.abc import Collection, Iterable

from msgspec import structs

from pykubelet.criserver.images.image_types import ImageRecord


def without_name(image: ImageRecord, name: str) -> ImageRecord | None:
    """Return the image without one of its names; None if that was the last one.

    With the last tag of a repository the image also loses its digests of that repository: they came with the tag.
    """
    tags = tuple(tag for tag in image.tags if tag != name)
    repositories = {_repository(tag) for tag in tags}
    if name in image.digests:
        digests = tuple(digest for digest in image.digests if digest != name)
    else:
        gone = {_repository(name)} - repositories
        digests = tuple(digest for digest in image.digests if _repository(digest) not in gone)
    return structs.replace(image, tags=tags, digests=digests) if tags or digests else None


def unused(images: Iterable[ImageRecord], used: Collection[str], *, also_tagged: bool) -> tuple[ImageRecord, ...]:
    """Return the images that are neither used nor pinned; those with a tag only if ``also_tagged``.

    ``used``: ids of images.
    """
    candidates = (image for image in images if image.id not in used and not image.pinned)
    return tuple(image for image in candidates if also_tagged or not image.tags)


def released_layers(removed: Iterable[ImageRecord], kept: Iterable[ImageRecord]) -> frozenset[str]:
    """Return the chain ids of the layers of removed images that no kept image has."""
    needed = {chain_id for image in kept for chain_id in image.layers}
    return frozenset({chain_id for image in removed for chain_id in image.layers} - needed)


def released_blob_bytes(removed: Iterable[ImageRecord], kept: Iterable[ImageRecord]) -> int:
    """Return the bytes of the blobs that only removed images need; a blob that several of them share counts once."""
    needed = {digest for image in kept for digest in image.blobs}
    total, counted = 0, set(needed)
    for image in removed:
        layers = {layer.digest: layer.size for layer in image.stack}
        # The record has one size for all: the manifest and the configuration are what the layers leave.
        documents = image.size - sum(layers.values())
        total += sum(size for digest, size in layers.items() if digest not in counted) + documents
        counted.update(layers)
    return total


def _repository(name: str) -> str:
    """``host/path`` of a full reference with a tag or a digest."""
    before_digest, at, _ = name.partition("@")
    return before_digest if at else name.rpartition(":")[0]

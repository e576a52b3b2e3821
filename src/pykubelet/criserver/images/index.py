"""Which images there are: one small file, replaced as a whole at each change, so that no crash leaves half a change.

An image is put here only after all its blobs are in the store, and taken from here before any blob is removed.
"""

import logging
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from pykubelet.base.atomic import remove_remains, write_atomic
from pykubelet.base.errors import Permanent
from pykubelet.criserver.images.types import ImageRecord
from pykubelet.linux.errors import wrap

_log = logging.getLogger(__name__)
_VERSION = 1


class _File(Struct, frozen=True):
    version: int
    images: tuple[ImageRecord, ...] = ()


_decoder = msgspec.json.Decoder(_File)


class ImageIndex:
    """The images in memory and on disk; blocking, one change at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        remove_remains(path.parent)
        self.images: dict[str, ImageRecord] = {image.id: image for image in self._load()}

    def put(self, record: ImageRecord) -> None:
        """Remember an image. References it brings are taken from the images that had them."""
        images = dict(self.images)
        known = images.pop(record.id, None)
        if known is not None:
            # The blobs of the newer pull: the same configuration may come with layers compressed otherwise.
            tags = tuple(dict.fromkeys((*known.tags, *record.tags)))
            digests = tuple(dict.fromkeys((*known.digests, *record.digests)))
            record = structs.replace(record, tags=tags, digests=digests)
        for other in images.values():
            if set(other.tags) & set(record.tags):
                kept = tuple(tag for tag in other.tags if tag not in record.tags)
                images[other.id] = structs.replace(other, tags=kept)
        images[record.id] = record
        self._save(images)

    def remove(self, image_id: str) -> None:
        """Forget an image."""
        self._save({key: image for key, image in self.images.items() if key != image_id})

    def _save(self, images: dict[str, ImageRecord]) -> None:
        data = msgspec.json.encode(_File(_VERSION, tuple(images.values())))
        try:
            write_atomic(self._path, data, durable=True)
        except OSError as error:
            raise wrap(error, f"cannot write {self._path}") from error
        self.images = images

    def _load(self) -> Iterable[ImageRecord]:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return ()
        try:
            version = msgspec.json.decode(data, type=_Versioned).version
            if version == _VERSION:
                return _decoder.decode(data).images
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            aside = self._path.with_name(f"{self._path.name}.damaged")
            self._path.replace(aside)
            _log.error(
                "the index of images is damaged; images must be pulled again",
                extra={"file": str(self._path), "kept_as": str(aside), "error": str(error)},
            )
            return ()
        raise Permanent(f"{self._path} has version {version}, this program knows {_VERSION}; use the newer program")


class _Versioned(Struct, frozen=True):
    version: int

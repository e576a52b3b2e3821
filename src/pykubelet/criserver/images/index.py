"""Which images there are: one small file, replaced as a whole at each change, so that no crash leaves half a change.

An image is put here only after all its blobs are in the store, and taken from here before any blob is removed. One
that is damaged, or whose configuration exceeds the ``limits``, is set aside when the index is read, and pulled again.
"""

import logging
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Raw, Struct, structs

from pykubelet.base.atomic import remove_remains, write_atomic
from pykubelet.base.errors import Invalid, Permanent
from pykubelet.criserver.images.limits import check_config, check_names, with_newest_names
from pykubelet.criserver.images.types import ImageRecord
from pykubelet.linux.errors import wrap

_log = logging.getLogger(__name__)
_VERSION = 1


class _File(Struct, frozen=True):
    version: int
    images: tuple[Raw, ...] = ()


_decoder = msgspec.json.Decoder(_File)
_image = msgspec.json.Decoder(ImageRecord)


class ImageIndex:
    """The images in memory and on disk; blocking, one change at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        remove_remains(path.parent)
        self.images: dict[str, ImageRecord] = {image.id: image for image in self._load()}

    def put(self, record: ImageRecord) -> None:
        """Remember an image. References it brings are taken from the images that had them.

        Of more names than an image may have, its oldest are forgotten. Invalid: the record alone has more.
        """
        for names in (record.tags, record.digests):
            check_names(names, f"image {record.id}")
        images = dict(self.images)
        known = images.pop(record.id, None)
        if known is not None:
            # The blobs of the newer pull: the same configuration may come with layers compressed otherwise.
            tags = with_newest_names(known.tags, record.tags)
            digests = with_newest_names(known.digests, record.digests)
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
        data = msgspec.json.encode({"version": _VERSION, "images": list(images.values())})
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
                return self._sound(_decoder.decode(data).images)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            aside = self._path.with_name(f"{self._path.name}.damaged")
            self._path.replace(aside)
            _log.error(
                "the index of images is damaged; images must be pulled again",
                extra={"file": str(self._path), "kept_as": str(aside), "error": str(error)},
            )
            return ()
        raise Permanent(f"{self._path} has version {version}, this program knows {_VERSION}; use the newer program")

    def _sound(self, raw: Iterable[Raw]) -> Iterable[ImageRecord]:
        """The images that can be used; the others are kept in a file beside the index, for people."""
        sound, bad = [], []
        for each in raw:
            try:
                image = _image.decode(each)
                check_config(image.config, f"image {image.id} ({', '.join(image.tags[:1])})")
                tags, digests = with_newest_names(image.tags, ()), with_newest_names(image.digests, ())
                image = structs.replace(image, tags=tags, digests=digests)
            except (msgspec.DecodeError, UnicodeDecodeError, Invalid) as error:
                bad.append(each)
                _log.error("an image is set aside; it must be pulled again", extra={"error": str(error)})
            else:
                sound.append(image)
        if bad:
            aside = self._path.with_name(f"{self._path.name}.quarantine")
            write_atomic(aside, msgspec.json.encode(bad))
        return sound


class _Versioned(Struct, frozen=True):
    version: int

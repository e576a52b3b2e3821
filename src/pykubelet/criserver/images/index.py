"""The index of images: one file, replaced atomically at each change, so that no crash leaves half a change.

An image is added only after all its blobs are in the store, and removed before any blob is removed. An image that is
damaged, or whose configuration exceeds the ``limits``, is quarantined when the index is read, and pulled again. So is
the whole index if it cannot be read or a newer version wrote it; another file follows one that cannot be looked up.
"""

import logging
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Raw, Struct, structs

from pykubelet.base.errors import Invalid, Permanent, PykubeletError
from pykubelet.base.files.atomic import remove_temporary_files, write_atomic
from pykubelet.base.files.decoding import decode_json
from pykubelet.base.files.retried_reads import read_again
from pykubelet.base.files.safe_path import read_regular
from pykubelet.base.units import KIB, MIB
from pykubelet.criserver.directories import set_aside
from pykubelet.criserver.images.image_types import ImageRecord
from pykubelet.criserver.images.limits import MAX_NAMES, check_config, check_names, with_newest_names
from pykubelet.criserver.images.reference import is_digest
from pykubelet.criserver.numbered_files import ReplacementMark, find_numbered
from pykubelet.linux.errors import wrap

_log = logging.getLogger(__name__)
_VERSION = 1
_LONGEST = 256 * MIB
"""Bytes of the file, and of all images in memory: the server must start in seconds, and on small machines."""
_LARGE = 64 * KIB
"""Images of more bytes in memory are large: by their labels, for instance, by 700 ports, or some 90 layers."""
_MOST_LARGE = 64 * MIB
"""Bytes of all images of more than ``_LARGE``. One may have 4 MiB, and each change of the index writes all."""
_OF_VALUE = 80
"""Bytes that a value takes in memory beside its text; an image may have 12,000 of one letter in 48 KiB."""
_SHOWN = 200
_DAMAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _File(Struct, frozen=True):
    version: int
    images: tuple[Raw, ...] = ()


_decoder = msgspec.json.Decoder(_File)
_image = msgspec.json.Decoder(ImageRecord)


class ImageIndex:
    """The images in memory and on disk. Blocking; one change at a time."""

    def __init__(self, path: Path) -> None:
        found = find_numbered(path)
        self._path = found.path
        self._mark = ReplacementMark(path)
        self._quarantine_file = quarantine_of(path)
        self.unusable = found.unusable
        """Earlier files, which the file system cannot look up."""
        remove_temporary_files(path.parent)
        for other in found.others:
            _set_aside(other)
        self.images: dict[str, ImageRecord] = {}
        if self._mark.is_set():
            # An earlier start has set the newest one aside, and was interrupted: any other is out of date.
            self._replace()
        else:
            self.images = {image.id: image for image in self._load()}

    def put(self, record: ImageRecord) -> None:
        """Add or update an image. Its tags are removed from other images.

        If an image gets more names than allowed, its oldest are dropped. Raises Invalid if the record alone has more;
        Permanent if the index has no room for the image, or for more names.
        """
        for names in (record.tags, record.digests):
            check_names(names, f"image {record.id}")
        images = dict(self.images)
        known = images.pop(record.id, None)
        if known is not None:
            # Use the blobs of the newer pull: they may differ in compression for the same configuration.
            tags = with_newest_names(known.tags, record.tags)
            digests = with_newest_names(known.digests, record.digests)
            verified = tuple(dict.fromkeys((*known.verified, *record.verified)))[-MAX_NAMES:]
            record = structs.replace(record, tags=tags, digests=digests, verified=verified)
        for other in images.values():
            if set(other.tags) & set(record.tags):
                kept = tuple(tag for tag in other.tags if tag not in record.tags)
                images[other.id] = structs.replace(other, tags=kept)
        images[record.id] = record
        self._save(images, record.id)

    def remove(self, image_id: str) -> None:
        """Remove an image."""
        self._save({key: image for key, image in self.images.items() if key != image_id})

    def drop_names(self, record: ImageRecord) -> None:
        """Replace an image by ``record``, which has fewer names."""
        self._save({**self.images, record.id: record})

    def _save(self, images: dict[str, ImageRecord], put: str = "") -> None:
        """Write the index; ``put`` is the image that is new or gets names, if any. Raises Permanent as ``put``."""
        data = _encoded(images, put, is_new=put not in self.images)
        if data is None:
            raise Permanent(
                f"the index of images has no room for {put}; remove images of large configurations or many layers"
            )
        try:
            write_atomic(self._path, data, durable=True)
        except OSError as error:
            raise wrap(error, f"cannot write {self._path}") from error
        self._mark.clear()
        self.images = images

    def _load(self) -> Iterable[ImageRecord]:
        try:
            data = read_again(partial(read_regular, self._path, _LONGEST))
            version = decode_json(data, _VersionedIndex).version
            if version != _VERSION:
                raise Invalid(f"it has version {version}; this program supports version {_VERSION}")
            return self._sound(_decoder.decode(data).images)
        except FileNotFoundError:
            return ()
        except (OSError, Invalid, *_DAMAGE) as error:
            _log.error(
                "image index unusable: images must be pulled again",
                extra={"file": str(self._path), "error": str(error)},
            )
            self._replace()
            return ()

    def _replace(self) -> None:
        """Set aside the index, and write an empty one, so that none of a lower number is ever taken for the newest."""
        try:
            self._mark.set()
        except OSError as error:
            _log.error("cannot mark the image index as replaced", extra={"file": str(self._path), "error": str(error)})
        if os.path.lexists(self._path):
            _set_aside(self._path)
        try:
            self._save({})
        except PykubeletError as error:
            _log.error("cannot write the new index of images", extra={"error": str(error)})

    def _sound(self, raw: Iterable[Raw]) -> Iterable[ImageRecord]:
        """The valid images; the others are kept in a quarantine file beside the index, for administrators."""
        sound, bad = [], []
        for each in raw:
            try:
                image = _image.decode(each)
                check_config(image.config, f"image {image.id} ({', '.join(image.tags[:1])})")
                tags, digests = with_newest_names(image.tags, ()), with_newest_names(image.digests, ())
                image = structs.replace(image, tags=tags, digests=digests)
                if not all(is_digest(digest) for digest in image.blobs):
                    raise Invalid(f"image {image.id} has a blob without a digest")
            except (Invalid, *_DAMAGE) as error:
                bad.append(each)
                _log.error("image quarantined: it must be pulled again", extra={"error": str(error)})
            else:
                sound.append(image)
        if bad:
            self._quarantine(bad)
        return sound

    def _quarantine(self, bad: Iterable[Raw]) -> None:
        """Append images to the quarantine file, which may have some of earlier starts."""
        aside = self._quarantine_file
        kept = _quarantined(aside)
        try:
            if kept is None:
                set_aside(aside)
            # The index has them until its next change: each start until then finds the same ones.
            write_atomic(aside, msgspec.json.encode([*map(Raw, dict.fromkeys(map(bytes, (*(kept or ()), *bad))))]))
        except OSError as error:
            _log.error("cannot write the image quarantine", extra={"file": str(aside), "error": str(error)})


def _encoded(images: Mapping[str, ImageRecord], put: str, *, is_new: bool) -> bytes | None:
    """The content of the index; None if it has no room for the image ``put``. Errors would keep its many bytes."""
    encoded = {key: msgspec.json.encode(image) for key, image in images.items()}
    sizes = {key: _in_memory(each) for key, each in encoded.items()}
    large = sum(size for size in sizes.values() if size > _LARGE)
    may_grow = not is_new or sizes.get(put, 0) <= _LARGE or large <= _MOST_LARGE
    if put and not (may_grow and sum(sizes.values()) <= _LONGEST):  # the file has fewer bytes
        return None
    return msgspec.json.encode(_File(_VERSION, tuple(map(Raw, encoded.values()))))


def _in_memory(encoded: bytes) -> int:
    """About the bytes that an image takes in memory, where one character can widen all others of its text."""
    return len(encoded) * (1 if encoded.isascii() else 4) + _OF_VALUE * encoded.count(b'","')


def _set_aside(index: Path) -> None:
    try:
        set_aside(index)
    except OSError as error:
        _log.error("cannot set aside the image index", extra={"file": str(index), "error": str(error)})


def quarantine_of(index: Path) -> Path:
    """The quarantine file of an index, with its unusable images."""
    return index.with_name(f"{index.name}.quarantine")


def quarantined_names(index: Path) -> dict[str, str]:
    """The ids of the quarantined images, as far as they are readable, and a name of each for display. Blocking."""
    found = {}
    for number, each in enumerate(_quarantined(quarantine_of(index)) or ()):
        with suppress(*_DAMAGE):
            named = decode_json(each, _NamedImage)
            identity = named.id[:_SHOWN] or f"number {number + 1}"
            found[identity] = next(iter((*named.tags, *named.digests)), "without a name")[:_SHOWN]
            continue
        found[f"number {number + 1}"] = "unreadable"
    return found


def _quarantined(file: Path) -> tuple[Raw, ...] | None:
    """Read the quarantine file; None if it is damaged."""
    try:
        return decode_json(read_again(partial(read_regular, file, _LONGEST)), tuple[Raw, ...])
    except FileNotFoundError:
        return ()
    except (OSError, *_DAMAGE):
        return None


class _NamedImage(Struct, frozen=True):
    id: str = ""
    tags: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()


class _VersionedIndex(Struct, frozen=True):
    version: int

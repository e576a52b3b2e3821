"""Decodes watch streams and lists: JSON events, one per line, each decoded on its own. No effects."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pykubelet.apiclient.errors import error_of
from pykubelet.base.errors import Invalid, Transient
from pykubelet.base.files.decoding import decode_json
from pykubelet.models.codec import decode
from pykubelet.models.meta_v1 import ListMeta, ObjectMeta, Status
from pykubelet.models.scalars import KubeStruct

T = TypeVar("T", bound=KubeStruct)
MAX_EVENT: Final = 32 << 20
"""Maximum bytes of one event; objects in etcd have 1.5 MiB at most."""


class WatchType(StrEnum):
    """Types of watch events."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class WatchEvent(Struct, Generic[T], frozen=True):
    """One event of a watch."""

    type: WatchType
    meta: ObjectMeta
    object: T | None
    """None for bookmarks, and for objects that cannot be decoded; ``fault`` then says why."""
    fault: str = ""


class Listing(Struct, Generic[T], frozen=True):
    """The result of a list."""

    items: tuple[T, ...]
    resource_version: str
    faults: tuple[tuple[ObjectMeta, str], ...] = ()
    """Objects that could not be decoded, with the errors."""


class _Envelope(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _RawList(msgspec.Struct, frozen=True):
    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


class _Meta(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


class Lines:
    """Splits a stream of chunks into lines."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that this chunk completes. Transient: a line is too long."""
        while (end := chunk.find(b"\n")) >= 0:
            line = b"".join((*self._rest, chunk[:end]))
            self._rest, self._size = [], 0
            chunk = chunk[end + 1 :]
            if line.strip():
                yield line
        if chunk:
            self._rest.append(chunk)
            self._size += len(chunk)
        if self._size > MAX_EVENT:
            raise Transient("watch: an event is too long")


def read_event(line: bytes, target: type[T]) -> WatchEvent[T]:
    """Decode one line of a watch. Raises the error of an ERROR event, and Transient for an invalid line."""
    try:
        envelope = decode_json(line, _Envelope)
    except (ValueError, RecursionError) as error:
        raise Transient(f"watch: the stream is broken: {error}") from error
    raw = bytes(envelope.object)
    if envelope.type == "ERROR":
        try:
            raise error_of(decode(raw, Status), "watch")
        except Invalid as error:
            raise Transient(f"watch: the ERROR event is not a Status: {error}") from error
    try:
        kind = WatchType(envelope.type)
    except ValueError as error:
        raise Transient(f"watch: an event of unknown type {envelope.type!r}") from error
    if kind is WatchType.BOOKMARK:
        return WatchEvent(kind, _meta(raw), None)
    try:
        value = _read(raw, target)
    except Invalid as error:
        return WatchEvent(kind, _meta(raw), None, str(error))
    return WatchEvent(kind, meta_of(value), value)


def read_list(body: bytes, target: type[T]) -> tuple[Listing[T], str]:
    """Decode one page of a list; return it and the token of the next page.

    An object that cannot be decoded does not affect the others. Raises Transient.
    """
    try:
        raw = decode_json(body, _RawList)
    except (ValueError, RecursionError) as error:
        raise Transient(f"list: the answer is not a list: {error}") from error
    items: list[T] = []
    faults: list[tuple[ObjectMeta, str]] = []
    for each in raw.items or ():
        text = bytes(each)
        try:
            items.append(_read(text, target))
        except Invalid as error:
            faults.append((_meta(text), str(error)))
    return Listing(tuple(items), raw.metadata.resource_version, tuple(faults)), raw.metadata.continue_


def meta_of(value: KubeStruct) -> ObjectMeta:
    """Return the metadata of any object."""
    meta = getattr(value, "metadata", None)
    return meta if isinstance(meta, ObjectMeta) else ObjectMeta()


def _read(raw: bytes, target: type[T]) -> T:
    """Decode the object without its managed fields, which are half of it and only matter to server-side apply."""
    value = decode(raw, target)
    meta = meta_of(value)
    if not meta.managed_fields:
        return value
    return replace(value, metadata=replace(meta, managed_fields=()))


def _meta(raw: bytes) -> ObjectMeta:
    try:
        return decode(raw, _Meta).metadata
    except Invalid:
        return ObjectMeta()

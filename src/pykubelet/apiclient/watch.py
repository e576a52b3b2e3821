"""Decodes answers: objects, and watch streams (JSON events, one per line). No effects.

An answer of another kind than the requested one is an error, whatever its HTTP status: a proxy or a broken server can
answer 200 with ``{}``, which must not mean that all objects are gone. An object that cannot be decoded does not affect
the others. But nothing can be read of a text that is too deep, as any author of an object can make it with managed
fields: the functions raise RecursionError for it, and ``shallow`` gives one that they can read.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pykubelet.apiclient.errors import error_of
from pykubelet.apiclient.weights import MAX_OBJECT, excessive, weight
from pykubelet.base.errors import Invalid, Transient
from pykubelet.base.files.decoding import convert, decode_json
from pykubelet.models.codec import decode_flat
from pykubelet.models.meta_v1 import ObjectMeta, Status
from pykubelet.models.scalars import KubeStruct, Time

T = TypeVar("T", bound=KubeStruct)
MAX_EVENT: Final = 32 << 20
"""Maximum bytes of one event; objects in etcd have 1.5 MiB at most."""
_SHOWN: Final = 100
_MAX_TEXT: Final = 1024
"""Maximum characters of what is kept of an object that cannot be read: names have 253."""


class WatchType(StrEnum):
    """Types of watch events."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class WatchEvent(Struct, Generic[T], frozen=True):
    """An event of a watch."""

    type: WatchType
    meta: ObjectMeta
    object: T | None
    """None for bookmarks, and for objects that cannot be decoded; ``fault`` then says why."""
    fault: str = ""
    weight: int = 0
    """The memory that the object takes, in bytes, as estimated."""


class UnreadObject(Struct, frozen=True):
    """An object that exists and that the client does not hold in this version."""

    meta: ObjectMeta
    """Namespace, name, uid, version and deletion."""
    fault: str
    """The cause, and a remedy."""
    weight: int = 0
    """Of an object that is too large: the bytes that it would take in memory, as estimated."""
    ending: bool = False
    """Whether an object that is too large is being deleted."""


class Listing(Struct, Generic[T], frozen=True):
    """The result of a list."""

    items: tuple[T, ...]
    resource_version: str
    unread: tuple[UnreadObject, ...] = ()
    """Objects that cannot be decoded, or are too large."""
    weights: tuple[int, ...] = ()
    """The bytes that each of the items takes in memory, as estimated."""


class _Envelope(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _Identity(KubeStruct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str = ""
    deletion_grace_period_seconds: int | None = None


class Head(KubeStruct, frozen=True):
    """Kind and identity of an object, which are read even if its other fields cannot be decoded."""

    kind: str = ""
    metadata: _Identity = _Identity()


class Lines:
    """Splits a stream of chunks into lines."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that this chunk completes. Transient: a line is too long."""
        *ends, rest = chunk.split(b"\n")  # at once: to cut off line after line would copy the rest each time
        for end in ends:
            line = bytes(self._rest) + end if self._rest else end
            self._rest.clear()
            if line.strip():
                yield line
        self._rest += rest
        if len(self._rest) > MAX_EVENT:
            raise Transient("watch: an event is too long")


def read_event(line: bytes, target: type[T]) -> WatchEvent[T]:
    """Decode one line of a watch. Raises the error of an ERROR event, and Transient for an invalid line."""
    try:
        envelope = decode_json(line, _Envelope)
    except ValueError as error:
        raise Transient(f"watch: the stream is broken: {error}") from error
    raw = bytes(envelope.object)
    if envelope.type == "ERROR":
        try:
            raise error_of(_decoded(raw, Status), "watch")
        except Invalid as error:
            raise Transient(f"watch: the ERROR event is not a Status: {error}") from error
    try:
        kind = WatchType(envelope.type)
    except ValueError as error:
        raise Transient(f"watch: an event of unknown type {envelope.type!r}") from error
    head = head_of(raw)
    if head.kind != target.__name__:
        raise Transient(f"watch: an event {kind_fault(head.kind, target.__name__)}")
    if kind is WatchType.BOOKMARK:
        return WatchEvent(kind, identity(head), None)
    try:
        value = read_value(raw, target)
    except Invalid as error:
        return WatchEvent(kind, identity(head), None, str(error))
    return WatchEvent(kind, meta_of(value), value, weight=weight(raw))


def read_object(body: bytes, target: type[T], what: str) -> T:
    """Decode the object that answers a request (``what``). Transient: the answer is another one, or none."""
    try:
        value = _decoded(body, target)
    except Invalid as error:
        raise Transient(f"{what}: the answer cannot be read: {error}") from error
    kind = getattr(value, "kind", "")
    if kind != target.__name__:
        raise Transient(f"{what}: an answer {kind_fault(kind, target.__name__)}")
    return value


def meta_of(value: KubeStruct) -> ObjectMeta:
    """Return the metadata of any object."""
    meta = getattr(value, "metadata", None)
    return meta if isinstance(meta, ObjectMeta) else ObjectMeta()


def read_value(raw: bytes, target: type[T]) -> T:
    """Decode the object without its managed fields, which are half of it and only matter to server-side apply."""
    value = _decoded(raw, target)
    meta = meta_of(value)
    if not (meta.name and meta.uid):
        raise Invalid("the object has no name or no uid")
    if not meta.managed_fields:
        return value
    return replace(value, metadata=replace(meta, managed_fields=()))


def head_of(raw: bytes) -> Head:
    """Return kind and identity of the object in a JSON text; they are empty if they cannot be decoded."""
    try:
        return decode_json(raw, Head) if excessive(raw) else decode_flat(raw, Head)  # which may decode all of it
    except (Invalid, ValueError):
        return Head()


def _decoded(raw: bytes, target: type[T]) -> T:
    if excessive(raw):
        raise Invalid(f"it would take more than {MAX_OBJECT >> 20} MiB of memory, which no object of etcd does")
    return decode_flat(raw, target)


def identity(head: Head) -> ObjectMeta:
    """Return what identifies the object and its version, and its deletion; what is longer than any name is cut."""
    found = head.metadata
    try:
        deleted = convert(found.deletion_timestamp, Time) if found.deletion_timestamp else None
    except ValueError:
        deleted = None
    return ObjectMeta(
        name=found.name[:_MAX_TEXT],
        namespace=found.namespace[:_MAX_TEXT],
        uid=found.uid[:_MAX_TEXT],
        resource_version=found.resource_version[:_MAX_TEXT],
        deletion_timestamp=deleted,
        deletion_grace_period_seconds=found.deletion_grace_period_seconds,
    )


def identity_of(meta: ObjectMeta) -> ObjectMeta:
    """Return the same of metadata, whose labels may be all that is large of an object."""
    return ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
        deletion_timestamp=meta.deletion_timestamp,
        deletion_grace_period_seconds=meta.deletion_grace_period_seconds,
    )


def kind_fault(kind: str, expected: str) -> str:
    """Return what is wrong with an answer of this kind."""
    return f"of kind {kind[:_SHOWN]!r} instead of {expected}"

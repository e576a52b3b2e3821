"""Collects the pages of a list: decodes their objects, except the largest ones beyond a bound. No effects.

As in ``watch.py``, an answer of another kind is an error, and an object that cannot be decoded affects no other.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import Struct

from pykubelet.apiclient.answers import TooLong
from pykubelet.apiclient.watch import Listing, UnreadObject, head_of, identity, kind_fault, read_value
from pykubelet.apiclient.weights import MAX_ENDING, MAX_OBJECTS, MAX_TOTAL, Choice, too_large, weight
from pykubelet.base.errors import Invalid, Transient
from pykubelet.base.files.decoding import decode_json, shallow
from pykubelet.models.meta_v1 import ListMeta, ObjectMeta
from pykubelet.models.scalars import KubeStruct

T = TypeVar("T", bound=KubeStruct)
R = TypeVar("R")
_MAX_COMMAS: Final = 4 << 20
"""Maximum commas of a page, which bound its objects before they are separated: the API server takes 3 MiB of one."""


class _RawList(msgspec.Struct, frozen=True, rename="camel"):
    kind: str = ""
    api_version: str = ""
    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


class _ListedObject(Struct, Generic[T]):
    """An object of the list."""

    meta: ObjectMeta
    weight: int
    ending: bool
    """Whether the object is being deleted."""
    value: T | None = None
    fault: str = ""
    """The reason why there is no value."""


class Pages(Generic[T]):
    """The pages of one list. Objects that do not fit are left out before they are decoded."""

    def __init__(self, target: type[T]) -> None:
        self._target: Final = target
        self._version = ""
        self._found: list[_ListedObject[T]] = []
        self._all = Choice(MAX_TOTAL)
        self._ending = Choice(MAX_ENDING)

    def read(self, body: bytes) -> str:
        """Take the next page; return the token of the one after it. Blocks for up to a second for each MiB.

        Transient: it is no list of these objects, a part of one without the token for the rest, or of too many.
        TooLong: the page has too many values; nothing of it was taken.
        """
        if body.count(b",") > _MAX_COMMAS:
            raise TooLong("list: the answer has too many values", broken=False)
        raw = _raw_list(body)
        if raw.kind != f"{self._target.__name__}List":
            raise Transient(f"list: an answer {kind_fault(raw.kind, f'{self._target.__name__}List')}")
        if not raw.metadata.resource_version:
            raise Transient("list: the answer has no resourceVersion")
        if raw.metadata.remaining_item_count and not raw.metadata.continue_:
            raise Transient(f"list: {raw.metadata.remaining_item_count} more objects, but no token to read them")
        if len(self._found) + len(raw.items or ()) > MAX_OBJECTS:
            raise Transient(f"list: more than {MAX_OBJECTS} objects")
        self._version = raw.metadata.resource_version
        first, kind = len(self._found), f'{{"kind":"{self._target.__name__}","apiVersion":"{raw.api_version}",'.encode()
        for each in raw.items or ():
            self._weigh(bytes(each), kind)
        for found, each in zip(self._found[first:], raw.items or (), strict=True):
            if not found.fault:
                self._decode(found, bytes(each))
        return raw.metadata.continue_

    def listing(self) -> Listing[T]:
        """Return the objects of all pages, in their order."""
        held = [(each.value, each.weight) for each in self._found if each.value is not None]
        return Listing(
            items=tuple(value for value, _ in held),
            resource_version=self._version,
            unread=tuple(
                UnreadObject(each.meta, each.fault, each.weight, each.ending) for each in self._found if each.fault
            ),
            weights=tuple(weight for _, weight in held),
        )

    def _weigh(self, text: bytes, kind: bytes) -> None:
        """Note an object, and leave those out that do not fit with it.

        An object weighs as much as in the event of a watch: this begins with its ``kind``, which lists leave out.
        """
        head, position = _shallowly(head_of, text), len(self._found)
        if not head.kind and text.startswith(b"{"):
            text = kind + text[1:]
        found: _ListedObject[T] = _ListedObject(identity(head), weight(text), bool(head.metadata.deletion_timestamp))
        self._found.append(found)
        for place in self._all.offer(position, found.weight, found.meta.namespace):
            other = self._found[place]
            if not other.ending:
                _leave_out(other)
                continue
            for each in self._ending.offer(place, other.weight, other.meta.namespace):
                _leave_out(self._found[each])

    def _decode(self, found: _ListedObject[T], text: bytes) -> None:
        try:
            found.value = _shallowly(partial(read_value, target=self._target), text)
        except Invalid as error:
            found.fault, found.weight = str(error), 0


def _leave_out(found: _ListedObject[T]) -> None:
    if not found.fault:
        found.value, found.fault = None, too_large(found.weight)


def _raw_list(body: bytes) -> _RawList:
    try:
        return _shallowly(partial(decode_json, kind=_RawList), body)
    except ValueError as error:
        raise Transient(f"list: the answer is not a list: {error}") from error


def _shallowly(read: Callable[[bytes], R], text: bytes) -> R:
    """Return what ``read`` finds in a text, without the parts that are too deep to be read."""
    try:
        return read(text)
    except RecursionError:
        return read(shallow(text))

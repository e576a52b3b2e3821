"""The objects of a collection that a reflector holds, and those that exist but that it does not hold. Pure.

An object that cannot be decoded or is too large keeps its last version, if it was held: it must not seem deleted. That
it is being deleted is noted in its last version, since its author could else delay its end for ever.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Generic, TypeVar

from msgspec.structs import replace

from pykubelet.apiclient.watch import Listing, UnreadObject, WatchEvent, identity_of, meta_of
from pykubelet.apiclient.weights import MAX_ENDING, MAX_OBJECTS, MAX_OF_NAMESPACE, MAX_TOTAL, too_large
from pykubelet.base.errors import Transient
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.models.scalars import KubeStruct

T = TypeVar("T", bound=KubeStruct)

Key = tuple[str, str]
"""Namespace and name."""


class HeldObjects(Generic[T]):
    """The objects after a list and the changes that follow it."""

    def __init__(self) -> None:
        self._items: dict[Key, T] = {}
        self._weights: dict[Key, int] = {}
        self._total = self._ending = 0
        """The bytes of the objects, and of those that are being deleted."""
        self._totals: defaultdict[str, int] = defaultdict(int)
        """The bytes of the objects of each namespace."""
        self._unread: dict[Key, UnreadObject] = {}
        self._has_shrunk = False
        """Whether an object was removed, takes less, or is being deleted, since the last list, held or not."""
        self._passed_over: set[Key] = set()
        """The objects that are being deleted of which the last list left none to hold."""

    @property
    def items(self) -> Mapping[Key, T]:
        """The objects, in their last versions that could be read."""
        return self._items

    @property
    def unread(self) -> Mapping[Key, UnreadObject]:
        """The objects whose last version is not held, whether or not an earlier one is."""
        return self._unread

    def replace(self, listing: Listing[T]) -> list[UnreadObject]:
        """Take over a list; return its objects that are not held for a reason that was not known of them."""
        before, known = self._items, self._unread
        weights, weights_before = listing.weights or (0,) * len(listing.items), self._weights
        self._items, self._weights, self._total, self._ending = {}, {}, 0, 0
        self._totals.clear()
        for item, weight in zip(listing.items, weights, strict=True):
            self._hold(key_of(meta_of(item)), item, weight)
        self._unread = {key_of(each.meta): each for each in listing.unread}
        kept = [key for key, each in self._unread.items() if key in before and _same(meta_of(before[key]), each.meta)]
        for key in kept:
            last = self._unread[key].meta
            self._hold(key, _with_deletion(before[key], last), weights_before[key])
            if last.resource_version and last.resource_version == meta_of(before[key]).resource_version:
                del self._unread[key]
        if kept:
            self._leave_out_for_kept(before, weights_before)
        self._has_shrunk = False
        self._passed_over = set() if self._holds_ending() else self._ending_left_out()
        return [each for key, each in self._unread.items() if not _known(known.get(key), each)]

    def put(self, event: WatchEvent[T]) -> UnreadObject | None:
        """Take over a new or changed object; return it if it is not held for a reason that was not known of it.

        Transient: there are too many objects.
        """
        key, unread = key_of(event.meta), self._unread_of(event)
        is_new = key not in self._items and key not in self._unread
        if is_new and len(self._items) + len(self._unread) >= MAX_OBJECTS:
            raise Transient(f"watch: more than {MAX_OBJECTS} objects")
        known = self._unread.pop(key, None)
        self._has_shrunk = self._has_shrunk or (known is not None and known.weight > event.weight)
        if unread is None:
            if event.object is not None:
                self._hold(key, event.object, event.weight)
            return None
        if (old := self._items.get(key)) is not None:
            if _same(meta_of(old), event.meta):
                self._hold(key, _with_deletion(old, event.meta), self._weights[key])
            else:
                self.remove(key)
        self._unread[key] = unread
        return None if _known(known, unread) else unread

    def remove(self, key: Key) -> None:
        """Forget an object that was deleted."""
        unread = self._unread.pop(key, None)
        self._passed_over.discard(key)
        if key in self._items:
            self._drop(key)
        elif unread is None or not unread.weight:
            return
        self._has_shrunk = True

    def may_hold_more(self) -> bool:
        """Whether a new list may have an object that was too large and fits now.

        Objects that are being deleted are held a few at a time: when all of them are gone, it is the turn of others.
        """
        too_large = {key: each for key, each in self._unread.items() if each.weight}
        if not too_large:
            return False
        if self._has_shrunk and self._may_fit({key: each.weight for key, each in too_large.items()}):
            return True
        left_out = self._ending_left_out()
        if not left_out or (left_out <= self._passed_over and not self._has_shrunk):
            return False
        return not self._holds_ending()

    def _ending_left_out(self) -> set[Key]:
        return {key for key, each in self._unread.items() if each.weight and each.ending and key not in self._items}

    def _holds_ending(self) -> bool:
        """Whether an object that is being deleted is held in its last version."""
        return any(_is_ending(each) for key, each in self._items.items() if key not in self._unread)

    def _leave_out_for_kept(self, before: Mapping[Key, T], weights_before: Mapping[Key, int]) -> None:
        """Leave out what does not fit with last versions that a list does not have: each list would add to them."""
        room = self._room()
        for key in sorted(self._items.keys() - self._unread.keys(), key=self._order_of_leaving_out):
            weight, value = self._weights[key], self._items[key]
            if self._total <= room:
                return
            old = before.get(key)
            is_held = old is not None and _same(meta_of(old), meta_of(value))
            more = weight - weights_before[key] if is_held else weight
            if more <= 0 or self._totals[key[0]] <= self._room_of_namespace(self._total - more):
                continue
            meta = identity_of(meta_of(value))
            self._unread[key] = UnreadObject(meta, too_large(weight), weight, _is_ending(value))
            if old is not None and is_held:
                self._hold(key, _with_deletion(old, meta), weights_before[key])
            else:
                self._drop(key)

    def _order_of_leaving_out(self, key: Key) -> tuple[bool, int, int, Key]:
        return _is_ending(self._items[key]), -self._totals[key[0]], -self._weights[key], key

    def _room(self) -> int:
        """Return the bytes for all objects, with the further ones of those that are being deleted as far as taken."""
        return MAX_TOTAL + min(self._ending, MAX_ENDING)

    def _room_of_namespace(self, total: int) -> int:
        """Return the bytes for a namespace beyond the maximum of all, with one more object beside others of ``total``.

        So all namespaces together take at most two and a half times that maximum, half of it only small ones.
        """
        return max(min(MAX_OF_NAMESPACE, (2 * MAX_TOTAL - total) // 4), (5 * MAX_TOTAL // 2 - total) // 32)

    def _hold(self, key: Key, value: T, weight: int) -> None:
        before, old = self._weights.get(key, 0), self._items.get(key)
        more, ending = weight - before, self._ending
        if old is not None and _is_ending(old):
            self._ending -= before
        if _is_ending(value):
            self._ending += weight
        self._items[key], self._weights[key] = value, weight
        self._total += more
        self._totals[key[0]] += more
        self._has_shrunk = self._has_shrunk or more < 0 or (old is not None and self._ending > ending)

    def _drop(self, key: Key) -> None:
        weight = self._weights.pop(key)
        if _is_ending(self._items.pop(key)):
            self._ending -= weight
        self._total -= weight
        self._totals[key[0]] -= weight
        if not self._totals[key[0]]:
            del self._totals[key[0]]

    def _unread_of(self, event: WatchEvent[T]) -> UnreadObject | None:
        """Return why the event's object is not held; None: it is."""
        if event.object is None:
            return UnreadObject(event.meta, event.fault)
        if self._fits(key_of(event.meta), event.weight, ending=_is_ending(event.object)):
            return None
        return UnreadObject(identity_of(event.meta), too_large(event.weight), event.weight, _is_ending(event.object))

    def _may_fit(self, weights: Mapping[Key, int]) -> bool:
        """Whether a list may hold one of these objects: below the maximum, or as one of a small namespace."""
        more = {key: weight - self._weights.get(key, 0) for key, weight in weights.items()}
        if self._total + min(more.values()) <= self._room():
            return True
        whole = defaultdict(int, self._totals)
        for (namespace, _), extra in more.items():
            whole[namespace] += extra
        most = max(self._totals.values(), default=0)
        return any(whole[key[0]] <= most and self._fits(key, weight, ending=False) for key, weight in weights.items())

    def _fits(self, key: Key, weight: int, *, ending: bool) -> bool:
        """Whether a version of an object with this weight, which may be being deleted, can be held."""
        more = weight - self._weights.get(key, 0)
        if more <= 0 or self._total + more <= (MAX_TOTAL + MAX_ENDING if ending else self._room()):
            return True
        return self._totals.get(key[0], 0) + more <= self._room_of_namespace(self._total)


def key_of(meta: ObjectMeta) -> Key:
    """Return the key of an object."""
    return (meta.namespace, meta.name)


def _is_ending(value: KubeStruct) -> bool:
    return meta_of(value).deletion_timestamp is not None


def _with_deletion(old: T, meta: ObjectMeta) -> T:
    """Return an earlier version of an object with the deletion that the metadata of a later one has."""
    before, deleted, grace = meta_of(old), meta.deletion_timestamp, meta.deletion_grace_period_seconds
    if deleted is None or (before.deletion_timestamp, before.deletion_grace_period_seconds) == (deleted, grace):
        return old
    metadata = replace(before, deletion_timestamp=deleted, deletion_grace_period_seconds=grace)
    return replace(old, metadata=metadata)


def _same(one: ObjectMeta, other: ObjectMeta) -> bool:
    """Whether both are one object, not another of the same name; a uid may be unknown."""
    return not (one.uid and other.uid) or one.uid == other.uid


def _known(before: UnreadObject | None, now: UnreadObject) -> bool:
    """Whether the object was unread for the same reason; one that is too large may be so by any weight."""
    if before is None or not _same(before.meta, now.meta):
        return False
    return before.fault == now.fault or (before.weight > 0 and now.weight > 0)

"""Objects by key, with versions: what can be listed can be watched from there on, as the Kubernetes API promises.

Versions are those of ``metadata.resourceVersion``. They begin with the time of the start, so those that a client got
from an agent that ran before are known to be too old, and it lists anew.
"""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, TypeVar

from pykubelet.kubelet.report.broadcast import Broadcast, Subscription

T = TypeVar("T")

_REMEMBERED_DELETIONS: Final = 512


class ChangeType(StrEnum):
    """Types of watch events."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """The newest state of one key."""

    key: str
    value: T
    version: int
    created: int
    """The version at which the key came to be."""
    deleted: bool = False


class WatchTable(Generic[T]):
    """A table with one value per key. One thread."""

    def __init__(self, first_version: int, limit: int = 10_000) -> None:
        self._version = first_version
        self._oldest = first_version
        """Changes after this version can be told in full."""
        self._current: dict[str, Change[T]] = {}
        self._deleted: deque[Change[T]] = deque()
        self._broadcast: Broadcast[str, Change[T]] = Broadcast(limit)

    @property
    def version(self) -> int:
        """Of the newest change."""
        return self._version

    @property
    def watchers(self) -> int:
        return len(self._broadcast)

    def __len__(self) -> int:
        return len(self._current)

    def __contains__(self, key: object) -> bool:
        return key in self._current

    def get(self, key: str) -> T | None:
        """The value of a key."""
        change = self._current.get(key)
        return change.value if change is not None else None

    def stalest(self) -> Change[T] | None:
        """The key changed longest ago; None if the table is empty."""
        return next(iter(self._current.values()), None)

    def changes(self) -> tuple[Change[T], ...]:
        """The present state, the key changed longest ago first."""
        return tuple(self._current.values())

    def put(self, key: str, make: Callable[[int], T]) -> T:
        """Set a key to what ``make`` gives for the new version."""
        self._version += 1
        old = self._current.pop(key, None)
        created = old.created if old is not None else self._version
        change = Change(key, make(self._version), self._version, created)
        self._current[key] = change
        self._broadcast.publish(key, change)
        return change.value

    def delete(self, key: str, make: Callable[[int], T] | None = None) -> None:
        """Drop a key; ``make`` gives its last value for the version of the deletion. Repeatable."""
        old = self._current.pop(key, None)
        if old is None:
            return
        self._version += 1
        last = make(self._version) if make is not None else old.value
        change = Change(key, last, self._version, old.created, deleted=True)
        self._deleted.append(change)
        if len(self._deleted) > _REMEMBERED_DELETIONS:
            self._oldest = self._deleted.popleft().version
        self._broadcast.publish(key, change)

    def forget(self, key: str) -> None:
        """Drop a key without telling: it has become old, nothing has happened to it."""
        self._current.pop(key, None)

    def since(self, version: int) -> Iterable[Change[T]] | None:
        """The changes after a version, in their order; None if they are not all known."""
        if not self._oldest <= version <= self._version:
            return None
        # A key that was deleted and made again is in both; its deletion is the older one.
        known = (*self._deleted, *self._current.values())
        return sorted((c for c in known if c.version > version), key=lambda c: c.version)

    def subscribe(self) -> AbstractContextManager[Subscription[str, Change[T]]]:
        """Changes from now on."""
        return self._broadcast.subscribe()

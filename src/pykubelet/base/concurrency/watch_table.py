"""A table of objects by key that can be listed and watched as the Kubernetes API promises.

Versions are values of ``metadata.resourceVersion``. They start from the agent's start time, so a version that a client
got from an earlier run of the agent is known to be too old, and the client lists again.
"""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Final, Generic, TypeVar

from msgspec import Struct

from pykubelet.base.concurrency.broadcast import Broadcast, Subscription
from pykubelet.base.units import MIB, Bytes

T = TypeVar("T")

_REMEMBERED_DELETIONS: Final = 512
_REMEMBERED_BYTES: Final = Bytes(4 * MIB)
"""Maximum size of the values of the remembered deletions together: their authors decide how large they are."""


class ChangeType(StrEnum):
    """Types of watch events."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Change(Struct, Generic[T], frozen=True):
    """The newest state of one key."""

    key: str
    value: T
    version: int
    created: int
    """The version at which the key was created."""
    deleted: bool = False


class WatchTable(Generic[T]):
    """A table with one value per key. Not thread-safe: used from one thread."""

    def __init__(self, first_version: int, *, limit: int = 10_000, size: Callable[[T], int] = lambda _: 0) -> None:
        """``size`` returns the bytes of a value that is deleted, which bound the deletions that are remembered."""
        self.limit = limit
        """Maximum number of keys whose changes wait for a watcher."""
        self._size = size
        self._version = first_version
        self._oldest = first_version
        """All changes after this version are still known."""
        self._current: dict[str, Change[T]] = {}
        self._deleted: deque[tuple[Change[T], int]] = deque()
        """The newest deletions and the sizes of their values."""
        self._deleted_bytes = 0
        self._broadcast: Broadcast[str, Change[T]] = Broadcast(limit)

    @property
    def version(self) -> int:
        """The version of the newest change."""
        return self._version

    @property
    def watchers(self) -> int:
        return len(self._broadcast)

    def __len__(self) -> int:
        return len(self._current)

    def __contains__(self, key: object) -> bool:
        return key in self._current

    def get(self, key: str) -> T | None:
        """Return the value of a key; None if it is not in the table."""
        change = self._current.get(key)
        return change.value if change is not None else None

    def stalest(self) -> Change[T] | None:
        """Return the key that changed longest ago; None if the table is empty."""
        return next(iter(self._current.values()), None)

    def changes(self) -> tuple[Change[T], ...]:
        """Return the present state, the key that changed longest ago first."""
        return tuple(self._current.values())

    def put(self, key: str, make: Callable[[int], T]) -> T:
        """Set a key to the value that ``make`` returns for the new version; return that value."""
        self._version += 1
        old = self._current.pop(key, None)
        created = old.created if old is not None else self._version
        change = Change(key, make(self._version), self._version, created)
        self._current[key] = change
        self._broadcast.publish(key, change)
        return change.value

    def delete(self, key: str, make: Callable[[int], T] | None = None) -> None:
        """Remove a key and notify watchers. Idempotent.

        ``make`` returns the key's last value for the version of the deletion; without it the value stays as it was.
        """
        old = self._current.pop(key, None)
        if old is None:
            return
        self._version += 1
        last = make(self._version) if make is not None else old.value
        change = Change(key, last, self._version, old.created, deleted=True)
        self._remember(change)
        self._broadcast.publish(key, change)

    def forget(self, key: str) -> None:
        """Remove a key without notifying watchers: the entry is merely old, nothing has happened to the object."""
        self._current.pop(key, None)

    def since(self, version: int) -> Iterable[Change[T]] | None:
        """Return the changes after a version, in order; None if some of them are no longer known."""
        if not self._oldest <= version <= self._version:
            return None
        # A key that was deleted and created again is in both; its deletion is the older change.
        known = (*(change for change, _ in self._deleted), *self._current.values())
        return sorted((c for c in known if c.version > version), key=lambda c: c.version)

    def subscribe(self) -> AbstractContextManager[Subscription[str, Change[T]]]:
        """Subscribe to changes from now on."""
        return self._broadcast.subscribe()

    def _remember(self, deletion: Change[T]) -> None:
        size = self._size(deletion.value)
        self._deleted.append((deletion, size))
        self._deleted_bytes += size
        while len(self._deleted) > _REMEMBERED_DELETIONS or self._deleted_bytes > _REMEMBERED_BYTES:
            oldest, freed = self._deleted.popleft()
            self._deleted_bytes -= freed
            self._oldest = oldest.version

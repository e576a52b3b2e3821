"""The journal: the last decisions about each pod, in memory, for `explain` and for errors of invariants."""

from collections import OrderedDict, deque
from dataclasses import dataclass

from pykubelet.base.clock import utc
from pykubelet.base.units import Seconds


@dataclass(frozen=True, slots=True)
class Entry:
    """One decision: its time (Unix seconds), what was decided, and the facts it was based on."""

    at: Seconds
    message: str
    fields: tuple[tuple[str, object], ...] = ()

    def __str__(self) -> str:
        stamp = utc(self.at).isoformat(timespec="milliseconds")
        return " ".join([stamp, self.message, *(f"{name}={value}" for name, value in self.fields)])


class Journal:
    """Keeps the newest `per_key` entries of each key; beyond `max_keys`, the key unused for longest is dropped."""

    def __init__(self, per_key: int = 64, max_keys: int = 2048) -> None:
        self._per_key = per_key
        self._max_keys = max_keys
        self._entries: OrderedDict[str, deque[Entry]] = OrderedDict()

    def add(self, key: str, at: Seconds, message: str, **fields: object) -> None:
        """Append a decision. `message` is constant text; the facts go into `fields`."""
        entries = self._entries.get(key)
        if entries is None:
            entries = self._entries[key] = deque(maxlen=self._per_key)
            if len(self._entries) > self._max_keys:
                self._entries.popitem(last=False)
        else:
            self._entries.move_to_end(key)
        entries.append(Entry(at, message, tuple(fields.items())))

    def entries(self, key: str) -> tuple[Entry, ...]:
        """The entries of a key, oldest first; empty for an unknown key."""
        return tuple(self._entries.get(key, ()))

    def keys(self) -> tuple[str, ...]:
        return tuple(self._entries)

    def forget(self, key: str) -> None:
        self._entries.pop(key, None)

    def render(self, key: str) -> str:
        """The entries of a key as text, one line each, oldest first."""
        return "\n".join(str(entry) for entry in self.entries(key))

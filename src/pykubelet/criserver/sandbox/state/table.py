"""The table of the server's sandboxes, in memory. It changes nothing on disk: that is ``records.py``."""

from collections.abc import Callable, Iterator

from pykubelet.base.errors import NotFound
from pykubelet.base.units import Seconds
from pykubelet.criserver.sandbox.state.sandbox_state import Sandbox
from pykubelet.criserver.types import SandboxID, SandboxPhase, SandboxRecord, find_by_id


class SandboxTable:
    """Sandboxes by id, in the order of their creation; also those whose creation or removal is not finished."""

    def __init__(self, *, monotonic: Callable[[], Seconds]) -> None:
        """``monotonic``: the clock for the histories of sandboxes."""
        self._monotonic = monotonic
        self._sandboxes: dict[SandboxID, Sandbox] = {}

    def __iter__(self) -> Iterator[Sandbox]:
        return iter(tuple(self._sandboxes.values()))

    def __contains__(self, sandbox: SandboxID) -> bool:
        return sandbox in self._sandboxes

    def visible(self) -> list[Sandbox]:
        """The sandboxes that clients may see."""
        return [each for each in self._sandboxes.values() if each.visible]

    def lookup(self, sandbox: SandboxID) -> Sandbox | None:
        """The sandbox with exactly this id, in any phase; None: it is unknown."""
        return self._sandboxes.get(sandbox)

    def find(self, sandbox: str) -> Sandbox | None:
        """Find a sandbox by its id or a unique prefix; None: unknown, or its creation is not finished."""
        found = find_by_id(self._sandboxes, SandboxID(sandbox))
        return None if found is None or found.record.phase is SandboxPhase.MAKING else found

    def get(self, sandbox: str) -> Sandbox:
        """Find a sandbox like ``find``. NotFound."""
        found = self.find(sandbox)
        if found is None:
            raise NotFound(f"sandbox {sandbox!r} does not exist")
        return found

    def holder(self, name: str) -> Sandbox | None:
        """The sandbox that holds this unique name, in any phase; None: the name is free."""
        return next((each for each in self if each.record.name == name), None)

    def add(self, record: SandboxRecord) -> Sandbox:
        """Add a sandbox: a new one, or one of the previous server."""
        sandbox = self._sandboxes[record.id] = Sandbox(record, monotonic=self._monotonic)
        return sandbox

    def drop(self, sandbox: SandboxID) -> None:
        """Remove a sandbox from the table; no error if missing."""
        self._sandboxes.pop(sandbox, None)

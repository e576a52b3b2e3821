"""A sandbox in the memory of the server."""

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from pykubelet.base.transition_table import Life
from pykubelet.base.units import Seconds
from pykubelet.criserver.sandbox.plan.lifecycle import LIFE_CYCLE
from pykubelet.criserver.types import SandboxID, SandboxPhase, SandboxRecord
from pykubelet.pb import runtime_v1_pb2 as pb


class Sandbox:
    """The record and the parsed request of a sandbox. The record is replaced, never modified."""

    def __init__(self, record: SandboxRecord, *, monotonic: Callable[[], Seconds]) -> None:
        """``monotonic``: the clock for its history."""
        self._record = record
        self._life = Life(LIFE_CYCLE, record.id, phase=record.phase, monotonic=monotonic)
        self.config = pb.PodSandboxConfig.FromString(record.config)
        """The parsed ``record.config``."""
        self.lock = asyncio.Lock()
        """Held by calls that change the phase."""
        self.stopping = False
        """A stop is in progress: nothing may be started in it any more."""
        self.released = False
        """This server has stopped it completely: only files, exited containers and records remain."""
        self.list_entry = b""
        """Its serialised entry in lists; empty until a list needs it, and after each change of the record."""

    @property
    def record(self) -> SandboxRecord:
        return self._record

    @record.setter
    def record(self, record: SandboxRecord) -> None:
        """Permanent, as of ``check``."""
        if record.phase is not self._record.phase:
            self._life.enter(record.phase)
        if record.config != self._record.config:
            self.config = pb.PodSandboxConfig.FromString(record.config)
        self._record = record
        self.list_entry = b""

    def check(self, record: SandboxRecord) -> None:
        """Check that this record may follow. Permanent, with its history: it is in a phase that cannot follow."""
        if record.phase is not self._record.phase:
            self._life.check(record.phase)

    def moved(self, phase: SandboxPhase, **changes: object) -> SandboxRecord:
        """Return its record in another phase. Permanent, with its history: the transition is impossible."""
        self._life.check(phase)
        return replace(self._record, phase=phase, **changes)

    @property
    def id(self) -> SandboxID:
        return self._record.id

    @property
    def ready(self) -> bool:
        return self._record.phase is SandboxPhase.READY

    @property
    def visible(self) -> bool:
        """Whether clients may see it: its creation is finished, and it is not being removed.

        A sandbox whose removal failed becomes visible again, so that its client retries.
        """
        match self._record.phase:
            case SandboxPhase.MAKING:
                return False
            case SandboxPhase.REMOVING:
                return not self.lock.locked()
            case _:
                return True

    @property
    def leftover(self) -> bool:
        """Its creation or removal failed, and no call is working on it now."""
        return self._record.phase in (SandboxPhase.MAKING, SandboxPhase.REMOVING) and not self.lock.locked()

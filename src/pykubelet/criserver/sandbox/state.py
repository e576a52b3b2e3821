"""A sandbox as the server holds it in memory."""

import asyncio

from pykubelet.criserver.types import SandboxID, SandboxPhase, SandboxRecord
from pykubelet.pb import runtime_v1_pb2 as pb


class Sandbox:
    """Record and parsed request. The record is replaced, never changed."""

    def __init__(self, record: SandboxRecord) -> None:
        self._record = record
        self.config = pb.PodSandboxConfig.FromString(record.config)
        """What the record says was asked for."""
        self.lock = asyncio.Lock()
        """Held by calls that change the phase."""
        self.stopping = False
        """A stop is under way: nothing may begin in it any more."""
        self.released = False
        """This server has stopped it to the end: what is left is files, ended containers, and records."""

    @property
    def record(self) -> SandboxRecord:
        return self._record

    @record.setter
    def record(self, record: SandboxRecord) -> None:
        if record.config != self._record.config:
            self.config = pb.PodSandboxConfig.FromString(record.config)
        self._record = record

    @property
    def id(self) -> SandboxID:
        return self._record.id

    @property
    def ready(self) -> bool:
        return self._record.phase is SandboxPhase.READY

    @property
    def visible(self) -> bool:
        """Whether others may see it: it is fully made and not being removed.

        One that could not be removed is seen again, so that its client retries.
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
        """It was not made to its end, or not removed, and no call is at it now."""
        return self._record.phase in (SandboxPhase.MAKING, SandboxPhase.REMOVING) and not self.lock.locked()

"""A sandbox in the memory of the server."""

import asyncio

from pykubelet.criserver.types import SandboxID, SandboxPhase, SandboxRecord
from pykubelet.pb import runtime_v1_pb2 as pb


class Sandbox:
    """The record and the parsed request of a sandbox. The record is replaced, never modified."""

    def __init__(self, record: SandboxRecord) -> None:
        self._record = record
        self.config = pb.PodSandboxConfig.FromString(record.config)
        """The parsed ``record.config``."""
        self.lock = asyncio.Lock()
        """Held by calls that change the phase."""
        self.stopping = False
        """A stop is in progress: nothing may be started in it any more."""
        self.released = False
        """This server has stopped it completely: only files, exited containers and records remain."""

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

"""A container as the server holds it in memory."""

import asyncio

from pykubelet.criserver.container.in_progress import InProgress
from pykubelet.criserver.types import ContainerID, ContainerPhase, ContainerRecord
from pykubelet.pb import runtime_v1_pb2 as pb


class Container:
    """Record, parsed request, and who waits for what. The record is replaced, never changed."""

    def __init__(self, record: ContainerRecord) -> None:
        self._record = record
        self.config = pb.ContainerConfig.FromString(record.config)
        """What the record says was asked for."""
        self.lock = asyncio.Lock()
        """Held by calls that change the phase."""
        self.in_progress = InProgress()
        """Its creation or start."""
        self.ended = asyncio.Event()
        self.killed = False
        """We have sent it SIGKILL."""
        self.launched = True
        """Something of a launch may be there: processes, a cgroup, the OCI runtime's state."""
        if record.phase in (ContainerPhase.EXITED, ContainerPhase.REMOVING):
            self.ended.set()

    @property
    def record(self) -> ContainerRecord:
        return self._record

    @record.setter
    def record(self, record: ContainerRecord) -> None:
        if record.config != self._record.config:
            self.config = pb.ContainerConfig.FromString(record.config)
        self._record = record

    @property
    def id(self) -> ContainerID:
        return self._record.id

    @property
    def visible(self) -> bool:
        """Whether others may see it: it is fully made and not being removed.

        One that could not be removed is seen again, so that its client retries.
        """
        match self._record.phase:
            case ContainerPhase.MAKING:
                return False
            case ContainerPhase.REMOVING:
                return not self.lock.locked()
            case _:
                return True

    @property
    def leftover(self) -> bool:
        """It was not made to its end, or not removed, and no call is at it now."""
        return self.unfinished and not self.in_progress.busy and not self.lock.locked()

    @property
    def unfinished(self) -> bool:
        """It is being made or removed, or was."""
        return self._record.phase in (ContainerPhase.MAKING, ContainerPhase.REMOVING)

    @property
    def running(self) -> bool:
        return self._record.phase is ContainerPhase.RUNNING

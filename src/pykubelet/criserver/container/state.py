"""A container in the memory of the server."""

import asyncio

from pykubelet.criserver.container.in_progress import InProgress
from pykubelet.criserver.types import ContainerID, ContainerPhase, ContainerRecord
from pykubelet.pb import runtime_v1_pb2 as pb


class Container:
    """The record, parsed request, lock and events of a container. The record is replaced, never modified."""

    def __init__(self, record: ContainerRecord) -> None:
        self._record = record
        self.config = pb.ContainerConfig.FromString(record.config)
        """The parsed ``record.config``."""
        self.lock = asyncio.Lock()
        """Held by calls that change the phase."""
        self.in_progress = InProgress()
        """Its creation or start in progress."""
        self.ended = asyncio.Event()
        self.killed = False
        """This server has sent it SIGKILL."""
        self.launched = True
        """A launch may have left something: processes, a cgroup, OCI state."""
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
        """Whether clients may see it: its creation is finished, and it is not being removed.

        A container whose removal failed becomes visible again, so that its client retries.
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
        """Its creation or removal failed, and no call is working on it now."""
        return self.unfinished and not self.in_progress.busy and not self.lock.locked()

    @property
    def unfinished(self) -> bool:
        """Its creation or removal is in progress, or failed."""
        return self._record.phase in (ContainerPhase.MAKING, ContainerPhase.REMOVING)

    @property
    def running(self) -> bool:
        return self._record.phase is ContainerPhase.RUNNING

"""A container as the server holds it in memory."""

import asyncio

from pykubelet.criserver.types import ContainerID, ContainerPhase, ContainerRecord
from pykubelet.pb import runtime_v1_pb2 as pb


class Container:
    """Record, parsed request, and who waits for what. The record is replaced, never changed."""

    def __init__(self, record: ContainerRecord) -> None:
        self.record = record
        self.config = pb.ContainerConfig.FromString(record.config)
        self.lock = asyncio.Lock()
        """Held by calls that change the phase."""
        self.ended = asyncio.Event()
        self.killed = False
        """We have sent it SIGKILL."""
        self.deleted = False
        """It has ended and was deleted in the OCI runtime, as this server has seen: nothing of its start is left."""
        if record.phase in (ContainerPhase.EXITED, ContainerPhase.REMOVING):
            self.ended.set()

    @property
    def id(self) -> ContainerID:
        return self.record.id

    @property
    def whole(self) -> bool:
        """Whether others may see it: it is fully made and not being removed."""
        return self.record.phase not in (ContainerPhase.MAKING, ContainerPhase.REMOVING)

    @property
    def running(self) -> bool:
        return self.record.phase is ContainerPhase.RUNNING

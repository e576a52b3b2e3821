"""A sandbox as the server holds it in memory."""

import asyncio

from pykubelet.criserver.types import SandboxID, SandboxPhase, SandboxRecord
from pykubelet.pb import runtime_v1_pb2 as pb


class Sandbox:
    """Record and parsed request. The record is replaced, never changed."""

    def __init__(self, record: SandboxRecord) -> None:
        self.record = record
        self.config = pb.PodSandboxConfig.FromString(record.config)
        self.lock = asyncio.Lock()
        """Held by calls that change the phase."""
        self.released = False
        """This server has stopped it to the end: what is left is files, ended containers, and records."""

    @property
    def id(self) -> SandboxID:
        return self.record.id

    @property
    def ready(self) -> bool:
        return self.record.phase is SandboxPhase.READY

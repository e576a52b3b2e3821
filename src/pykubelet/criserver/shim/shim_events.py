"""Receives the events of shims. Only OOM kills are used: a task's end is the answer to ``Wait``."""

import asyncio
from pathlib import Path
from typing import Final

from google.protobuf.message import DecodeError

from pykubelet.criserver.shim.ttrpc_server import serve_events
from pykubelet.pb.containerd_events_pb2 import TaskOOM
from pykubelet.pb.containerd_events_service_pb2 import Envelope

_OOM = "/tasks/oom"
_MOST_KILLED: Final = 4096
"""Containers with OOM kills that are remembered; the oldest is forgotten first."""
_LONGEST_ID: Final = 128


class ShimEvents:
    """The socket to which shims connect. They do not start while nothing listens there."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self._server: asyncio.Server | None = None
        self._oom_killed: dict[str, None] = {}

    async def open(self) -> None:
        """Listen from now on."""
        self._server = await serve_events(self.socket, self._received)

    async def close(self) -> None:
        """Stop listening; shims try again for a while. Idempotent."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def take_oom(self, container: str) -> bool:
        """Whether a shim has reported an OOM kill of the container; forget it."""
        found = container in self._oom_killed
        self._oom_killed.pop(container, None)
        return found

    def _received(self, event: Envelope) -> None:
        if event.topic == _OOM:
            try:
                container = TaskOOM.FromString(event.event.value).container_id
            except DecodeError:
                return
            if len(container) <= _LONGEST_ID:
                self._oom_killed[container] = None
            if len(self._oom_killed) > _MOST_KILLED:
                del self._oom_killed[next(iter(self._oom_killed))]

"""A ttRPC server with one call: shims send their events to it."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from google.protobuf.message import DecodeError

from pykubelet.base.errors import Permanent
from pykubelet.base.http.paced_protocol import PacedProtocol
from pykubelet.criserver.shim.ttrpc_frames import PIECE, REQUEST, RESPONSE, Frame, FrameReader
from pykubelet.pb import shim_task_pb2, ttrpc_pb2
from pykubelet.pb.containerd_events_service_pb2 import Envelope

_log = logging.getLogger(__name__)
_FORWARD: Final = ("containerd.services.events.ttrpc.v1.Events", "Forward")
_UNIMPLEMENTED: Final = 12
_INVALID: Final = 3
_MOST_NAME: Final = 200


class EventConnection(PacedProtocol):
    """The connection of one shim."""

    def __init__(self, received: Callable[[Envelope], None]) -> None:
        super().__init__(lambda: PIECE)
        self._received = received
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; called by the event loop."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def pause_writing(self) -> None:
        """Read no more requests while the shim reads no responses; called by the event loop."""
        assert self._transport is not None
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Read requests again; called by the event loop."""
        assert self._transport is not None
        self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Answer requests; called by the event loop."""
        assert self._transport is not None
        try:
            for frame in self._reader.feed(data):
                if frame.kind == REQUEST and not self._transport.is_closing():
                    response = self._answer(frame.message)
                    self._transport.write(Frame(frame.stream, RESPONSE, response.SerializeToString()).encode())
        except Permanent as error:
            # No warning: a shim may connect again at once, any number of times, and only marks of OOM kills are lost.
            _log.debug("shim disconnected: malformed event", extra={"error": str(error)})
            self._transport.abort()

    def _answer(self, message: bytes) -> ttrpc_pb2.Response:
        try:
            request = ttrpc_pb2.Request.FromString(message)
            if (request.service, request.method) != _FORWARD:
                words = f"{request.service[:_MOST_NAME]}/{request.method[:_MOST_NAME]} is not served here"
                return ttrpc_pb2.Response(status=ttrpc_pb2.Status(code=_UNIMPLEMENTED, message=words))
            self._received(shim_task_pb2.ForwardRequest.FromString(request.payload).envelope)
        except DecodeError:
            return ttrpc_pb2.Response(status=ttrpc_pb2.Status(code=_INVALID, message="the request is malformed"))
        return ttrpc_pb2.Response()


async def serve_events(path: Path, received: Callable[[Envelope], None]) -> asyncio.Server:
    """Listen for shims; ``received`` gets each event. A socket of a former server is replaced."""
    # At the start only; to bind the socket uses the same directory.
    path.unlink(missing_ok=True)  # noqa: ASYNC240
    server = await asyncio.get_running_loop().create_unix_server(lambda: EventConnection(received), str(path))
    path.chmod(0o600)  # noqa: ASYNC240 - at once, before others may connect
    return server

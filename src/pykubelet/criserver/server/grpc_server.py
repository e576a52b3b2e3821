"""The gRPC server on its unix socket."""

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import grpc

from pykubelet.base.errors import Conflict, Invalid
from pykubelet.base.units import MIB, Seconds
from pykubelet.criserver.processes import is_alive, reference
from pykubelet.criserver.server.call_table import Calls, Observer
from pykubelet.linux.sockets import listener

_MAX_MESSAGE = 16 * MIB
_MAX_CALLS = 1024
"""Calls of one connection at a time; gRPC's clients let further ones wait. An agent has one for each pod that changes.
"""
_MAX_SOCKET_PATH = 107
_OPTIONS = (
    ("grpc.max_receive_message_length", _MAX_MESSAGE),
    ("grpc.max_send_message_length", _MAX_MESSAGE),
    # Go clients send more pings than gRPC's core accepts by default; on a unix socket they are harmless.
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.so_reuseport", 0),
    # Without a limit, a client that begins calls and does not read the answers delays all others by seconds.
    ("grpc.max_concurrent_streams", _MAX_CALLS),
)
_GOODBYE: Seconds = 2.0


class Group(Protocol):
    """A group of calls of a service."""

    def register(self, calls: Calls) -> None:
        """Register the calls of this group."""
        ...


Groups = tuple[Group, ...]


class CriServer:
    """Server of RuntimeService, ImageService, and of ImageTransfer, this project's own service."""

    def __init__(
        self, *, path: Path, runtime: Groups, images: Groups, transfer: Groups = (), observer: Observer | None = None
    ) -> None:
        """Invalid: the path is too long for a unix socket."""
        if len(str(path).encode()) > _MAX_SOCKET_PATH:
            raise Invalid(f"socket path {path} is longer than {_MAX_SOCKET_PATH} bytes; use a shorter directory")
        self._path = path
        self.serving = asyncio.Event()
        """Set once calls are answered."""
        services = ("runtime.v1.RuntimeService", "runtime.v1.ImageService", "pykubelet.images.v1.ImageTransfer")
        self._tables = tuple(Calls(service, observer) for service in services)
        for table, groups in zip(self._tables, (runtime, images, transfer), strict=True):
            for group in groups:
                group.register(table)

    async def run(self) -> None:
        """Serve until cancelled. Conflict: another server listens on the socket."""
        with self._socket_path():
            server = grpc.aio.server(options=_OPTIONS)
            server.add_generic_rpc_handlers([table.handler() for table in self._tables])
            server.add_insecure_port(f"unix:{self._path}")
        # Before it answers, so that no client that may connect is refused once.
        self._path.chmod(0o660)
        await server.start()
        self.serving.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await server.stop(_GOODBYE)

    @contextlib.contextmanager
    def _socket_path(self) -> Iterator[None]:
        """Prepare the path of the socket: a stale one of a killed server is removed. Conflict: a server listens.

        A stale socket may still accept connections while a child of the killed server holds it, without answering.
        """
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._path.exists():
            if is_alive(reference(listener(self._path))):
                raise Conflict(f"another server listens on {self._path}")
            self._path.unlink(missing_ok=True)
        # Only root may connect from the moment the socket exists.
        before = os.umask(0o177)
        try:
            yield
        finally:
            os.umask(before)

"""Port forwarding over the agent's socket: one SPDY connection, a pair of streams for each local client."""

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from pykubelet.base.errors import Permanent, Transient
from pykubelet.base.http.upgrade import SWITCHED, UpgradeResponse, closing, request_head, request_upgrade
from pykubelet.base.spdy import SpdyConnection, SpdyStream, StreamLink

_READ_BYTES = 32768
_HEADERS = (
    ("Host", "localhost"),
    ("Connection", "Upgrade"),
    ("Upgrade", "SPDY/3.1"),
    ("X-Stream-Protocol-Version", "portforward.k8s.io"),
)


@dataclass(frozen=True, slots=True)
class Forwarding:
    """The ports to forward."""

    socket: Path
    path: str
    address: str
    pairs: Sequence[tuple[int, int]]
    """Pairs of local and remote port; local 0: any free port."""


async def forward(wanted: Forwarding, say: Callable[[str], None]) -> None:
    """Forward until cancelled or until the agent's connection ends.

    Permanent: rejected by the agent, or a local port is not available. Transient: no agent, or the connection was lost.
    """
    try:
        reader, writer = await asyncio.open_unix_connection(str(wanted.socket))
    except OSError as error:
        raise Transient(f"no agent responds at {wanted.socket} ({error.strerror})") from error
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(closing(writer, within=1.0))
        answer = await request_upgrade(reader, writer, request_head("POST", wanted.path, _HEADERS))
        if answer.status != SWITCHED:
            raise Permanent(f"the agent rejected the request: {_message(answer)}")
        connection = await stack.enter_async_context(SpdyConnection.over(StreamLink(reader, writer)))
        clients = _Clients(connection, say)
        stack.push_async_callback(clients.close)
        for local, remote in wanted.pairs:
            server = await _listen(wanted.address, local, clients, remote)
            stack.callback(server.close)
            for host, port, *_ in sorted(made.getsockname() for made in server.sockets):
                say(f"Forwarding from {f'[{host}]' if ':' in host else host}:{port} -> {remote}")
        await connection.ended.wait()
        raise Transient("lost connection to the pod")


async def _listen(address: str, local: int, clients: "_Clients", remote: int) -> asyncio.Server:
    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        clients.serve(reader, writer, remote)

    # With local port 0, the two addresses of localhost would get different ports.
    where = "127.0.0.1" if address == "localhost" and not local else address
    try:
        return await asyncio.start_server(accepted, where, local)
    except OSError as error:
        words = os.strerror(error.errno) if error.errno else str(error)
        raise Permanent(f"cannot listen on {address} port {local}: {words}") from error


class _Clients:
    """Connections of local clients."""

    def __init__(self, connection: SpdyConnection, say: Callable[[str], None]) -> None:
        self._connection = connection
        self._say = say
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        """Serve one client to its end."""
        self._count += 1
        task = asyncio.create_task(self._serve(reader, writer, port), name=f"client-{self._count}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Close all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        self._say(f"Handling connection for {writer.get_extra_info('sockname')[1]}")
        headers = {"port": str(port), "requestid": str(self._count)}
        async with closing(writer, within=5.0):
            try:
                error = await self._connection.open(headers | {"streamtype": "error"})
                error.finish()
                data = await self._connection.open(headers | {"streamtype": "data"})
            except (ConnectionError, TimeoutError):
                return
            try:
                await _join(reader, writer, data)
            finally:
                data.finish()
                data.reset()
            with suppress(ConnectionError):
                words = b""
                while (piece := await error.read()) and len(words) < _READ_BYTES:
                    words += piece
                if words:
                    self._say(f"error: {words.decode(errors='replace')}")


async def _join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: SpdyStream) -> None:
    """Copy in both directions until the pod ends its direction or the client disconnects."""
    upstream = asyncio.create_task(_to_pod(reader, data), name="to-pod")
    try:
        with suppress(OSError):
            while piece := await data.read():
                writer.write(piece)
                await writer.drain()
    finally:
        upstream.cancel()
        await asyncio.gather(upstream, return_exceptions=True)


async def _to_pod(reader: asyncio.StreamReader, data: SpdyStream) -> None:
    with suppress(ConnectionError):
        while piece := await reader.read(_READ_BYTES):
            await data.write(piece)
        data.finish()


def _message(answer: UpgradeResponse) -> str:
    with suppress(ValueError, KeyError, TypeError):
        return str(json.loads(answer.body)["message"])
    return answer.text

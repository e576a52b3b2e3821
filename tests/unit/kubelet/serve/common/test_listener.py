"""The listener's limits and errors, over plain TCP."""

import asyncio
import errno
import gc
import select
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import Permanent
from pykubelet.kubelet.serve.common.binding import bind
from pykubelet.kubelet.serve.common.connections import CloseReason
from pykubelet.kubelet.serve.common.limits import ConnectionLimits
from pykubelet.kubelet.serve.common.listener import Listener
from pykubelet.testing.certificates import Authority
from pykubelet.testing.wait import until


@asynccontextmanager
async def listening(
    untrusted: int = 10,
    first_request: float = 10.0,
    closed: list[CloseReason] | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[tuple[Listener, int]]:
    """Run a server that answers hello, for the block."""

    async def context() -> ssl.SSLContext:
        assert tls is not None
        return tls

    limits = ConnectionLimits(untrusted * 2, untrusted, untrusted, first_request=first_request)
    listener = Listener(
        limits=limits,
        clock=SystemClock(),
        tls=context if tls else None,
        closed=(closed if closed is not None else []).append,
    )

    async def hello(request: web.BaseRequest) -> web.Response:
        with listener.serving(request, trusted=True):
            return web.Response(text="hello")

    server = web.Server(hello)
    with bind("127.0.0.1", 0, "a test", "set port") as bound:
        task = asyncio.get_running_loop().create_task(listener.run(server, bound))
        try:
            yield listener, bound.getsockname()[1]
        finally:
            task.cancel()
            await asyncio.wait([task])
            await server.shutdown(0.1)


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def hung_up(client: socket.socket) -> bool:
    poll = select.poll()
    poll.register(client, select.POLLRDHUP)
    return bool(poll.poll(0))


async def answer(reader: asyncio.StreamReader) -> bytes:
    """Read to the end; empty if the connection was reset."""
    async with asyncio.timeout(30):
        try:
            return await reader.readuntil(b"hello")
        except asyncio.IncompleteReadError as error:
            return error.partial
        except ConnectionError:
            return b""


async def test_a_request_is_answered() -> None:
    async with listening() as (_, port), connected(port) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await answer(reader)).startswith(b"HTTP/1.1 200")


async def test_silent_connection_is_closed() -> None:
    async with listening(first_request=0.05) as (listener, port), connected(port) as (reader, _):
        assert await answer(reader) == b""
        assert listener.connections == 0


async def test_slow_first_request_is_closed() -> None:
    async with listening(first_request=0.1) as (_, port), connected(port) as (reader, writer):
        waiting = asyncio.get_running_loop().create_task(answer(reader))
        for byte in b"GET / HTTP/1.1\r\nX-Slow: aaaaaaaaaaaaaaaaaaaaaaaaa":
            writer.write(bytes([byte]))
            await asyncio.wait([waiting], timeout=0.01)
            if waiting.done():
                break
        assert await waiting == b""


async def test_connection_after_its_first_request_stays_open() -> None:
    async with listening(first_request=1.0) as (listener, port), connected(port) as (reader, writer):
        for _ in range(2):
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await answer(reader)).startswith(b"HTTP/1.1 200")
            await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=1.2)
        assert listener.connections == 1


async def test_connection_beyond_the_limit_closes_the_oldest_silent_one() -> None:
    closed: list[CloseReason] = []
    async with listening(untrusted=2, closed=closed) as (listener, port), connected(port) as (oldest, _):
        await until(lambda: listener.connections == 1)
        async with connected(port), connected(port) as (reader, writer):
            assert await answer(oldest) == b""
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await answer(reader)).startswith(b"HTTP/1.1 200")
            assert (listener.connections, closed) == (2, [CloseReason.EVICTED])


async def test_connections_that_are_evicted_as_soon_as_they_arrive_are_closed() -> None:
    untrusted = 4
    gc.disable()  # it would hide that no one closes them
    try:
        async with listening(untrusted=untrusted) as (listener, port), AsyncExitStack() as stack:
            # They arrive while the event loop is busy, so that all of them are accepted at once.
            arrived = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(24)]
            await until(lambda: sum(map(hung_up, arrived)) >= len(arrived) - untrusted)
            assert listener.connections == untrusted
    finally:
        gc.enable()


async def test_connections_that_are_evicted_in_their_handshake_leave_nothing_to_the_garbage_collector(
    tmp_path: Path,
) -> None:
    issued = Authority(tmp_path).issue("server", ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)
    gc.collect()
    gc.disable()
    try:
        async with listening(untrusted=2, tls=context) as (listener, port), AsyncExitStack() as stack:
            for _ in range(12):
                client = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                client.send(b"\x16\x03\x01\x02\x00")  # the beginning of a TLS record
                await until(lambda: in_handshake() > 0)
            await until(lambda: listener.connections == 2 and in_handshake() <= 2)
    finally:
        gc.enable()


def in_handshake() -> int:
    """The number of TLS connections that are in memory."""
    return sum(isinstance(each, SSLProtocol) for each in gc.get_objects())


async def test_connections_that_have_arrived_leave_other_tasks_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, steps, waiting = asyncio.get_running_loop(), 0, list(range(50))

    async def accept(_: socket.socket) -> tuple[socket.socket, object]:
        if not waiting:
            await loop.create_future()
        waiting.pop()
        raise OSError(errno.ECONNABORTED, "gone")

    async def other() -> None:
        nonlocal steps
        while waiting:
            steps += 1
            await asyncio.sleep(0)

    async with listening() as (_, port):
        monkeypatch.setattr(loop, "sock_accept", accept)
        task = loop.create_task(other())
        # The accept that waits since the start takes this one; the next ones return at once.
        async with connected(port):
            await task
    # One iteration is the first accept's.
    assert steps >= 49


async def test_listener_forgets_connections_that_ended() -> None:
    async with listening() as (listener, port):
        for _ in range(3):
            async with connected(port) as (reader, writer):
                writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                assert (await answer(reader)).startswith(b"HTTP/1.1 200")
            await until(lambda: listener.connections == 0)


async def test_listener_goes_on_after_an_error_of_one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async with listening() as (listener, port):
        loop = asyncio.get_running_loop()
        calls: list[str] = []

        async def broken(*_: object, **__: object) -> None:
            calls.append("connection")
            raise ValueError("defect")

        with monkeypatch.context() as patch:
            patch.setattr(loop, "connect_accepted_socket", broken)
            async with connected(port) as (reader, _):
                assert await answer(reader) == b""
        assert (calls, listener.connections) == (["connection"], 0)
        async with connected(port) as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await answer(reader)).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(("number", "pauses"), [(errno.ECONNABORTED, 0), (errno.EMFILE, 1), (errno.EBADMSG, 1)])
async def test_listener_goes_on_after_an_error_of_accept(number: int, pauses: int) -> None:
    clock = Pauses()
    listener = Listener(limits=ConnectionLimits(2, 2, 2), clock=clock, tls=None, closed=lambda _: None)
    loop = asyncio.get_running_loop()
    accepted = loop.sock_accept
    errors = [OSError(number, "fault")]

    async def accept(sock: socket.socket) -> tuple[socket.socket, object]:
        if errors:
            raise errors.pop()
        return await accepted(sock)

    async def hello(_: web.BaseRequest) -> web.Response:
        return web.Response(text="hello")

    server = web.Server(hello)
    with bind("127.0.0.1", 0, "a test", "set port") as listening, pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "sock_accept", accept)
        task = loop.create_task(listener.run(server, listening))
        async with connected(listening.getsockname()[1]) as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await answer(reader)).startswith(b"HTTP/1.1 200")
        task.cancel()
        await asyncio.wait([task])
        await server.shutdown(0.1)
    assert clock.pauses == pauses


class Pauses(SystemClock):
    """A clock that does not wait."""

    def __init__(self) -> None:
        self.pauses = 0

    async def sleep(self, seconds: float) -> None:
        self.pauses += 1


def test_unavailable_address_is_named_in_the_error() -> None:
    with bind("127.0.0.1", 0, "a test", "set port") as taken, pytest.raises(Permanent, match=r"for a test .* set port"):
        bind("127.0.0.1", taken.getsockname()[1], "a test", "set port")


def test_wildcard_address_includes_ipv6() -> None:
    with bind("0.0.0.0", 0, "a test", "set port") as taken:
        port = taken.getsockname()[1]
        families = [(socket.AF_INET, "127.0.0.1")]
        families += [(socket.AF_INET6, "::1")] if socket.has_dualstack_ipv6() else []
        for family, address in families:
            with socket.socket(family) as client:
                client.connect((address, port))

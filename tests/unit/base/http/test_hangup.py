"""Connections whose other side goes while nothing is read."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pykubelet.base.http.hangup import abort_connection, hung_up, keep_alive, vanished, wait_until_stuck
from pykubelet.testing.wait import settle
from tests.unit.base.http.http_server import server_context


@asynccontextmanager
async def _writer(mine: socket.socket) -> AsyncIterator[asyncio.StreamWriter]:
    _, writer = await asyncio.open_connection(sock=mine)
    yield writer
    writer.close()
    await writer.wait_closed()


async def test_unread_data_does_not_hide_the_hang_up() -> None:
    mine, theirs = socket.socketpair()
    with theirs:
        async with _writer(mine) as writer:
            theirs.sendall(b"x" * 1000)
            assert not hung_up(writer)
            theirs.shutdown(socket.SHUT_WR)
            assert hung_up(writer)
    assert hung_up(writer), "a closed connection has no other side"


async def test_peer_that_has_only_ended_its_data_has_not_vanished() -> None:
    mine, theirs = socket.socketpair()
    with theirs:
        async with _writer(mine) as writer:
            theirs.shutdown(socket.SHUT_WR)
            assert not vanished(writer)
            theirs.close()
            assert vanished(writer)
    assert vanished(writer), "a closed connection has no other side"


async def test_the_kernel_asks_silent_clients() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()):
        mine, _ = listener.accept()
        async with _writer(mine) as writer:
            keep_alive(writer)
            assert mine.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert mine.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 15


async def test_other_sockets_need_no_asking() -> None:
    mine, theirs = socket.socketpair()
    with theirs:
        async with _writer(mine) as writer:
            keep_alive(writer)
            assert mine.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 0


async def test_hung_up_client_keeps_its_session_while_output_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykubelet.base.http.hangup.STUCK", 0.001)
    left = iter(range(5))
    taken: list[int] = []

    def take() -> int:
        taken.append(next(left, 4))
        return taken[-1]

    async with asyncio.timeout(10):
        await wait_until_stuck(take, lambda: True)
    assert taken == [0, 1, 2, 3, 4, 4]


async def test_connected_client_may_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykubelet.base.http.hangup.STUCK", 0.001)
    answers = iter([False] * 5)
    async with asyncio.timeout(10):
        await wait_until_stuck(lambda: 7, lambda: next(answers, True))
    assert next(answers, None) is None


async def test_an_end_that_does_not_wait_behind_data() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        _, writer = await asyncio.open_connection(*listener.getsockname())
        theirs, _ = listener.accept()
        with theirs:
            writer.write(b"x" * 20_000_000)
            abort_connection(writer)
            await settle()
            with pytest.raises(ConnectionResetError):
                while theirs.recv(1_000_000):
                    pass


async def test_a_closed_tls_connection_that_was_reset_counts_as_gone() -> None:
    async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        abort_connection(writer)

    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    async with asyncio.timeout(10), await asyncio.start_server(reset, "127.0.0.1", 0, ssl=server_context()) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), ssl=trust)
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
        assert hung_up(writer)
        keep_alive(writer)
        abort_connection(writer)

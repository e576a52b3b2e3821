"""Messages of a WebSocket: a flood leaves other tasks their turn, and pings are answered."""

import ast
import asyncio
from collections.abc import Awaitable
from pathlib import Path

import pytest
from aiohttp import WSMessage, WSMsgType, web

import pykubelet
from pykubelet.base.http.websocket_messages import AT_ONCE, Messages, close
from pykubelet.base.spdy import WebSocketLink
from pykubelet.testing.wait import steps_of_another_task

_COUNT = 10_000


class _Flood:
    """A WebSocket whose messages have all arrived: to read one of them never waits."""

    def __init__(self, kind: WSMsgType, data: bytes) -> None:
        self._message = WSMessage(kind, data, None)
        self.left = _COUNT
        self.pongs = 0
        self.sent: list[WSMsgType] = []
        self.closed = False

    def __aiter__(self) -> "_Flood":
        return self

    async def __anext__(self) -> WSMessage:
        if not self.left:
            raise StopAsyncIteration
        self.left -= 1
        return self._message

    async def pong(self, data: bytes) -> None:
        assert data == self._message.data
        self.pongs += 1

    async def send_frame(self, data: bytes, kind: WSMsgType) -> None:
        assert data == b"\x03\xe8"
        self.sent.append(kind)

    async def close(self) -> None:
        assert not self.left, "this would read the rest without a turn of others"
        self.closed = True


def _socket(flood: _Flood) -> web.WebSocketResponse:
    return flood  # type: ignore[return-value]  # the parts that are used


async def _steps_during(read: Awaitable[object]) -> int:
    async with steps_of_another_task() as steps:
        await read
    return steps.count


async def _read_all(messages: Messages) -> None:
    async for _ in messages:
        pass


@pytest.mark.parametrize("kind", [WSMsgType.BINARY, WSMsgType.TEXT, WSMsgType.PING, WSMsgType.PONG])
async def test_messages_that_have_arrived_leave_others_their_turn(kind: WSMsgType) -> None:
    flood = _Flood(kind, b"")
    assert await _steps_during(_read_all(Messages(_socket(flood)))) >= _COUNT // AT_ONCE
    assert flood.pongs == (_COUNT if kind is WSMsgType.PING else 0)


async def test_link_whose_messages_are_empty_leaves_others_their_turn() -> None:
    link = WebSocketLink(_socket(_Flood(WSMsgType.BINARY, b"")))
    assert await _steps_during(link.read()) >= _COUNT // AT_ONCE


async def test_peer_that_floods_a_websocket_that_is_closed_leaves_others_their_turn() -> None:
    flood = _Flood(WSMsgType.BINARY, b"x")
    assert await _steps_during(close(_socket(flood))) >= _COUNT // AT_ONCE
    assert flood.closed and flood.sent == [WSMsgType.CLOSE]


async def test_link_that_ends_says_so_and_is_read_until_the_peer_has_gone() -> None:
    flood = _Flood(WSMsgType.BINARY, b"x")
    link = WebSocketLink(_socket(flood))
    await link.end()
    assert flood.sent == [WSMsgType.CLOSE] and not flood.closed
    assert await link.read() == b"x"


async def test_read_that_is_cancelled_loses_no_message_and_ends_nothing() -> None:
    flood = _Flood(WSMsgType.BINARY, b"x")
    messages = Messages(_socket(flood))
    for _ in range(AT_ONCE):
        await anext(messages)
    cancelled = asyncio.create_task(anext(messages))
    await asyncio.sleep(0)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert flood.left == _COUNT - AT_ONCE
    assert (await anext(messages)).data == b"x"


def test_every_websocket_of_a_server_leaves_pings_and_its_end_to_this_module() -> None:
    calls = [
        call
        for path in Path(pykubelet.__file__).parent.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("WebSocketResponse")
    ]
    assert calls
    for call in calls:
        assert "autoping=False, timeout=0.0" in ast.unparse(call)

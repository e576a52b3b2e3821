"""Frames of one end of a SPDY connection, as client and as server: numbers, replies, resets, limits and the end."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from pykubelet.base.http import hangup
from pykubelet.base.spdy import SpdyConnection, SpdyStream, StreamResetError
from pykubelet.base.spdy.codec import Decoder, Encoder
from pykubelet.base.spdy.connection import Bounds
from pykubelet.base.spdy.frames import Data, Frame, GoAway, HeadersFrame, Ping, RstStream, SynReply, SynStream
from pykubelet.base.spdy.link import StreamLink
from pykubelet.base.units import KIB
from pykubelet.testing.wait import settle, until

_QUICK = Bounds(linger=0.0)
_NO_MORE = b""


class Peer:
    """The other end: it sends and receives frames as they are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._encoder, self._decoder = Encoder(), Decoder()
        self._frames: list[Frame] = []

    async def send(self, *frames: Frame) -> None:
        self._writer.write(b"".join(self._encoder.encode(frame) for frame in frames))
        await self._writer.drain()

    async def receive(self) -> Frame | None:
        """The next frame; None at the end of the connection."""
        while not self._frames:
            data = await self._reader.read(65536)
            if not data:
                return None
            self._frames = self._decoder.feed(data)
        return self._frames.pop(0)

    async def receive_all(self) -> list[Frame]:
        """All frames up to the end of the connection."""
        found = []
        while (frame := await self.receive()) is not None:
            found.append(frame)
        return found

    async def answers(self, *frames: Frame, last: Ping) -> list[Frame]:
        """The replies to these frames: ``last`` is a ping that is answered after them."""
        await self.send(*frames, last)
        found = []
        while (frame := await self.receive()) != last:
            assert frame is not None
            found.append(frame)
        return found

    def leave(self) -> None:
        self._writer.transport.abort()


@asynccontextmanager
async def _ends(
    accept: Callable[[SpdyStream], bool] | None, bounds: Bounds = _QUICK
) -> AsyncIterator[tuple[SpdyConnection, Peer]]:
    ours, theirs = socket.socketpair()
    link, peer = (
        StreamLink(*await asyncio.open_connection(sock=ours)),
        Peer(*await asyncio.open_connection(sock=theirs)),
    )
    try:
        async with asyncio.timeout(20), SpdyConnection.over(link, accept, bounds) as connection:
            yield connection, peer
    finally:
        peer.leave()
        link._writer.transport.abort()
        await asyncio.sleep(0)


async def test_client_opens_streams_with_odd_numbers_and_the_server_with_even_ones() -> None:
    for accept, numbers in ((None, [1, 3, 5]), (lambda _: True, [2, 4, 6])):
        async with _ends(accept) as (connection, peer):
            for number in numbers:
                opening = asyncio.create_task(connection.open({"n": str(number)}))
                assert await peer.receive() == SynStream(number, {"n": str(number)})
                await peer.send(SynReply(number))
                assert (await opening).number == number


async def test_pings_of_the_peer_are_answered_by_either_end() -> None:
    async with _ends(None) as (_, peer):
        assert await peer.answers(Ping(1), Ping(3), last=Ping(2)) == []
    async with _ends(lambda _: True) as (_, peer):
        assert await peer.answers(Ping(2), Ping(4), last=Ping(3)) == []


async def test_client_accepts_no_streams() -> None:
    async with _ends(None) as (_, peer):
        assert await peer.answers(SynStream(2), SynStream(3), last=Ping(2)) == [RstStream(2, 3), RstStream(3, 1)]


async def test_data_of_a_stream_that_never_existed_is_reset_and_of_a_closed_one_dropped() -> None:
    made: list[SpdyStream] = []

    def accept(stream: SpdyStream) -> bool:
        made.append(stream)
        return True

    async with _ends(accept) as (_, peer):
        assert await peer.answers(SynStream(5), last=Ping(1)) == [SynReply(5)]
        made[0].reset()
        assert await peer.receive() == RstStream(5, 5)
        # 5 was closed here, 3 is before it, 8 would be a stream of this end.
        assert await peer.answers(Data(5, b"x"), Data(3, b"x"), Data(8, b"x"), last=Ping(1)) == []
        assert await peer.answers(Data(7, b"x"), last=Ping(1)) == [RstStream(7, 2)]


async def test_reply_that_ends_its_stream_leaves_the_other_direction_open() -> None:
    async with _ends(None) as (connection, peer):
        opening = asyncio.create_task(connection.open({}))
        await peer.receive()
        await peer.send(SynReply(1, fin=True), SynReply(1), SynReply(9))
        stream = await opening
        assert await stream.read() == _NO_MORE
        await stream.write(b"words")
        assert await peer.receive() == Data(1, b"words")


async def test_stream_whose_reply_does_not_end_it_goes_on() -> None:
    async with _ends(None) as (connection, peer):
        opening = asyncio.create_task(connection.open({}))
        await peer.receive()
        await peer.send(SynReply(1), HeadersFrame(1, {"a": "b"}), Data(1, b"words"), HeadersFrame(1, fin=True))
        stream = await opening
        await settle()
        assert await stream.read() == b"words"
        assert await stream.read() == _NO_MORE


async def test_reply_to_a_stream_of_the_peer_means_nothing() -> None:
    made: list[SpdyStream] = []

    def accept(stream: SpdyStream) -> bool:
        made.append(stream)
        return True

    async with _ends(accept) as (_, peer):
        assert await peer.answers(SynStream(1), SynReply(1, fin=True), last=Ping(1)) == [SynReply(1)]
        await peer.send(Data(1, b"words"))
        assert await made[0].read() == b"words"


async def test_refused_stream_holds_no_number_and_frees_its_place() -> None:
    async with _ends(lambda stream: stream.header("ok") == "y", Bounds(streams=1, linger=0.0)) as (_, peer):
        refused, accepted, too_many = SynStream(1), SynStream(3, {"ok": "y"}), SynStream(5, {"ok": "y"})
        assert await peer.answers(refused, accepted, too_many, last=Ping(1)) == [
            RstStream(1, 3),
            SynReply(3),
            RstStream(5, 3),
        ]
        await peer.send(RstStream(3, 5))
        assert await peer.answers(SynStream(7, {"ok": "y"}), last=Ping(1)) == [SynReply(7)]


async def test_reset_of_the_peer_ends_reading_and_writing() -> None:
    made: list[SpdyStream] = []

    def accept(stream: SpdyStream) -> bool:
        made.append(stream)
        return True

    async with _ends(accept) as (_, peer):
        assert await peer.answers(SynStream(1), SynStream(3), RstStream(1, 5), last=Ping(1)) == [
            SynReply(1),
            SynReply(3),
        ]
        for act in (made[0].read(), made[0].write(b"x")):
            with pytest.raises(StreamResetError):
                await act
        await made[1].write(b"other")
        assert await peer.receive() == Data(3, b"other")


async def test_end_resets_open_streams_and_names_the_last_one_of_the_peer() -> None:
    async with _ends(lambda _: True) as (_, peer):
        assert await peer.answers(SynStream(1), SynStream(7), last=Ping(1)) == [SynReply(1), SynReply(7)]
        end = asyncio.create_task(peer.receive_all())
    assert await end == [RstStream(1, 5), RstStream(7, 5), GoAway(7)]


async def test_violation_of_the_protocol_is_answered_with_the_last_stream() -> None:
    async with _ends(lambda _: True) as (connection, peer):
        assert await peer.answers(SynStream(3), last=Ping(1)) == [SynReply(3)]
        peer._writer.write(b"\x80\x03\x00\x01\x00\xff\xff\xff")
        assert await peer.receive() == GoAway(3, 1)
        await connection.ended.wait()


async def test_goaway_of_the_peer_ends_the_opening_of_streams_and_no_stream() -> None:
    async with _ends(None) as (connection, peer):
        opening = asyncio.create_task(connection.open({}))
        await peer.receive()
        await peer.send(SynReply(1), GoAway(1))
        stream = await opening
        await connection.ended.wait()
        with pytest.raises(StreamResetError, match="has ended"):
            await connection.open({})
        await peer.send(Data(1, b"words"))
        assert await stream.read() == b"words"


async def test_stream_without_a_reply_is_reset() -> None:
    async with _ends(None, Bounds(reply=0.05, linger=0.0)) as (connection, peer):
        with pytest.raises(TimeoutError):
            await connection.open({})
        assert await peer.receive() == SynStream(1)
        assert await peer.receive() == RstStream(1, 5)
        assert connection._streams == {}, "it takes no memory any more"


async def _stays_open(side: str, idle: float) -> bool | None:
    """Whether a connection with bytes in one direction outlives the limit; None: this machine was too slow to tell."""
    made: list[SpdyStream] = []

    def accept(stream: SpdyStream) -> bool:
        made.append(stream)
        return True

    loop = asyncio.get_running_loop()
    async with _ends(accept, Bounds(idle=idle, linger=0.0)) as (connection, peer):
        assert await peer.answers(SynStream(1), last=Ping(1)) == [SynReply(1)]
        begun = last = loop.time()
        ended = asyncio.create_task(connection.ended.wait())
        while loop.time() < begun + 2 * idle and not ended.done():
            # A ping of even number is not answered, so that bytes go in one direction only.
            await (peer.send(Ping(2)) if side == "peer" else made[0].write(b"x"))
            await asyncio.wait({ended}, timeout=idle / 10)
            if loop.time() - last > idle / 2:
                await asyncio.wait({ended})
                return None
            last = loop.time()
        stayed = not ended.done()
        await ended  # when nothing is sent any more
        return stayed


@pytest.mark.parametrize("side", ["peer", "own"])
async def test_connection_with_traffic_in_one_direction_is_not_idle(side: str) -> None:
    idle = 0.4
    while (stayed := await _stays_open(side, idle)) is None:
        idle *= 2
    assert stayed


async def test_peer_that_is_slow_to_read_gets_all_at_the_end() -> None:
    made: list[SpdyStream] = []

    def accept(stream: SpdyStream) -> bool:
        made.append(stream)
        return True

    got: list[Frame] = []

    async def read_slowly(peer: Peer) -> None:
        await settle()
        got.extend(await peer.receive_all())

    async with _ends(accept, Bounds(queued=4096 * KIB, queued_at_most=8192 * KIB, linger=5.0)) as (_, peer):
        assert await peer.answers(SynStream(1), last=Ping(1)) == [SynReply(1)]
        await made[0].write(b"x" * 2048 * KIB)
        made[0].finish()
        reading = asyncio.create_task(read_slowly(peer))
        reading.add_done_callback(lambda _: peer.leave())
    await reading
    assert sum(len(frame.data) for frame in got if isinstance(frame, Data)) == 2048 * KIB
    assert got[-1] == GoAway(1)


async def test_peer_that_never_reads_delays_the_end_only_so_long() -> None:
    made: list[SpdyStream] = []

    def accept(stream: SpdyStream) -> bool:
        made.append(stream)
        return True

    bounds = Bounds(queued=4096 * KIB, queued_at_most=8192 * KIB, flush=0.2, linger=30.0)
    begun = asyncio.get_running_loop().time()
    async with _ends(accept, bounds) as (_, peer):
        assert await peer.answers(SynStream(1), last=Ping(1)) == [SynReply(1)]
        await made[0].write(b"x" * 2048 * KIB)
    assert 0.2 <= asyncio.get_running_loop().time() - begun < 15


@pytest.mark.parametrize("leaves", [False, True])
async def test_end_waits_for_the_peer_to_close_but_not_for_ever(leaves: bool) -> None:
    loop = asyncio.get_running_loop()
    async with _ends(lambda _: True, Bounds(linger=15.0 if leaves else 0.2)) as (_, peer):

        async def leave() -> None:
            assert await peer.receive_all() == [GoAway(0)]
            if leaves:
                peer.leave()

        end, begun = asyncio.create_task(leave()), loop.time()
    await end
    waited = loop.time() - begun
    assert waited < 14 if leaves else waited >= 0.2


async def test_writer_of_a_connection_that_ends_is_notified() -> None:
    made: list[SpdyStream] = []

    def accept(stream: SpdyStream) -> bool:
        made.append(stream)
        return True

    async with _ends(accept, Bounds(queued=64 * KIB, linger=0.0)) as (connection, peer):
        assert await peer.answers(SynStream(1), last=Ping(1)) == [SynReply(1)]
        writing = asyncio.create_task(made[0].write(b"x" * 4096 * KIB))
        await settle()
        assert not writing.done()
        peer.leave()
        with pytest.raises(StreamResetError):
            await writing
        await until(connection.ended.is_set)
        with pytest.raises(StreamResetError):
            await connection.send(Ping(2))


async def test_end_drops_what_refers_to_its_owner() -> None:
    """A session that has ended takes no memory until the garbage collector runs."""
    async with _ends(lambda _: True) as (connection, peer):
        assert await peer.answers(SynStream(1), last=Ping(1)) == [SynReply(1)]
        assert len(connection._streams) == 1
    assert (connection._accept, connection._streams) == (None, {})
    assert connection.ended.is_set()


def _kept(made: list[SpdyStream]) -> Callable[[SpdyStream], bool]:
    def accept(stream: SpdyStream) -> bool:
        made.append(stream)
        return True

    return accept


async def test_unread_stream_that_is_closed_in_both_directions_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hangup, "STUCK", 3600.0)
    made: list[SpdyStream] = []
    async with _ends(_kept(made), Bounds(held=1 * KIB, linger=0.0)) as (_, peer):
        assert await peer.answers(SynStream(1), last=Ping(1)) == [SynReply(1)]
        await peer.send(Data(1, b"x" * 2 * KIB, fin=True), Ping(3))
        await until(lambda: made[0].held == 2 * KIB)
        await settle()
        made[0].finish()
        assert await peer.receive() == Data(1, b"", fin=True)
        assert await peer.receive() == Ping(3)
        assert await made[0].read() == b"x" * 2 * KIB


async def test_connection_whose_data_is_not_read_ends_when_its_peer_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hangup, "STUCK", 0.05)
    made: list[SpdyStream] = []
    async with _ends(_kept(made), Bounds(held=1 * KIB, linger=0.0)) as (connection, peer):
        await peer.send(SynStream(1), Data(1, b"x" * 2 * KIB))
        await until(lambda: made and made[0].held == 2 * KIB)
        peer.leave()
        await connection.ended.wait()
        assert await made[0].read() == b"x" * 2 * KIB, "what has arrived can still be read"


async def test_queue_for_a_slow_peer_stays_within_its_limit() -> None:
    made: list[SpdyStream] = []
    async with _ends(_kept(made), Bounds(queued=64 * KIB, linger=0.0)) as (connection, peer):
        assert await peer.answers(SynStream(1), last=Ping(1)) == [SynReply(1)]
        writers = [asyncio.create_task(made[0].write(b"x" * 1024 * KIB)) for _ in range(4)]
        got = 0
        while got < 4096 * KIB:
            # Each of the writers that wait may add one piece when there is room again.
            assert connection._queued <= (64 + 5 * 65) * KIB
            frame = await peer.receive()
            assert isinstance(frame, Data)
            got += len(frame.data)
        await asyncio.gather(*writers)

"""Two ends of a SPDY connection, and one end against a peer that does not behave."""

import asyncio
import socket
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.base.spdy import SpdyConnection, SpdyStream, StreamLink, StreamResetError
from pykubelet.base.spdy.codec import Decoder, Encoder
from pykubelet.base.spdy.connection import Bounds
from pykubelet.base.spdy.frames import Data, Frame, GoAway, HeadersFrame, Ping, RstStream, SynReply, SynStream
from pykubelet.base.units import KIB, MIB
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.wait import settle, steps_of_another_task, until
from tests.unit.base.spdy.frames import FRAMES

Accept = Callable[[SpdyStream], bool]


@asynccontextmanager
async def _pair() -> AsyncIterator[tuple[StreamLink, StreamLink]]:
    left, right = socket.socketpair()
    ends = [await asyncio.open_connection(sock=end) for end in (left, right)]
    try:
        yield StreamLink(*ends[0]), StreamLink(*ends[1])
    finally:
        for _, writer in ends:
            writer.transport.abort()
        await asyncio.sleep(0)


@asynccontextmanager
async def _talking(accept: Accept, bounds: Bounds | None = None) -> AsyncIterator[SpdyConnection]:
    """A client whose server accepts as the test says."""
    async with asyncio.timeout(20), _pair() as (ours, theirs):
        done = asyncio.Event()

        async def serve() -> None:
            async with SpdyConnection.over(theirs, accept, bounds):
                await done.wait()

        async with asyncio.TaskGroup() as group:
            group.create_task(serve())
            try:
                async with SpdyConnection.over(ours, None, Bounds(linger=0.0)) as client:
                    yield client
            finally:
                done.set()


class Peer:
    """A peer that sends what the test wants."""

    def __init__(self, link: StreamLink) -> None:
        self._link = link
        self._encoder = Encoder()
        self._decoder = Decoder()
        self._frames: list[Frame] = []

    async def send(self, *frames: Frame) -> None:
        await self._link.write(b"".join(self._encoder.encode(frame) for frame in frames))

    async def send_bytes(self, data: bytes) -> None:
        await self._link.write(data)

    async def end(self) -> None:
        await self._link.end()

    async def receive(self) -> Frame:
        while not self._frames:
            data = await self._link.read()
            if not data:
                raise EOFError
            self._frames = self._decoder.feed(data)
        return self._frames.pop(0)


@asynccontextmanager
async def _peer(accept: Accept, bounds: Bounds | None = None) -> AsyncIterator[tuple[SpdyConnection, Peer]]:
    async with (
        asyncio.timeout(20),
        _pair() as (ours, theirs),
        SpdyConnection.over(ours, accept, bounds or Bounds(linger=0.0)) as connection,
    ):
        yield connection, Peer(theirs)


async def test_streams_both_ways_and_their_ends() -> None:
    made: list[SpdyStream] = []
    kinds: list[str] = []

    def accept(stream: SpdyStream) -> bool:
        made.append(stream)
        kinds.append(stream.header("StreamType"))
        return True

    async with _talking(accept) as client:
        first = await client.open({"streamtype": "data", "port": "80"})
        second = await client.open({"streamtype": "error"})
        assert kinds == ["data", "error"]
        assert [stream.headers for stream in made] == [{}, {}]
        assert (first.number, second.number) == (1, 3)
        await first.write(b"x" * 200_000)
        first.finish()
        got = b""
        while piece := await made[0].read():
            got += piece
        assert got == b"x" * 200_000
        await made[0].write(b"answer")
        made[0].finish()
        assert await first.read() == b"answer"
        assert await first.read() == b""
        with pytest.raises(StreamResetError):
            await first.write(b"more")


async def test_a_reset_keeps_what_came_before() -> None:
    made: list[SpdyStream] = []

    def accept(stream: SpdyStream) -> bool:
        made.append(stream)
        return True

    async with _talking(accept) as client:
        stream = await client.open({})
        await made[0].write(b"last words")
        made[0].reset()
        assert await stream.read() == b"last words"
        with pytest.raises(StreamResetError):
            await stream.read()
        with pytest.raises(StreamResetError):
            await made[0].write(b"more")


async def test_stream_refused_by_the_peer_raises_an_error() -> None:
    async with _talking(lambda _: False) as client:
        with pytest.raises(StreamResetError, match="refused"):
            await client.open({})


async def test_the_end_of_the_connection_ends_streams() -> None:
    async with _talking(lambda _: True) as client:
        stream = await client.open({})
        reading = asyncio.create_task(stream.read())
        await asyncio.sleep(0)
    with pytest.raises(StreamResetError):
        await reading
    with pytest.raises(StreamResetError):
        await client.open({})


async def test_output_arrives_before_the_end() -> None:
    async with asyncio.timeout(20), _pair() as (ours, theirs):

        def accept(stream: SpdyStream) -> bool:
            made.append(stream)
            return True

        made: list[SpdyStream] = []

        async def serve() -> None:
            async with SpdyConnection.over(theirs, accept):
                await until(lambda: made)
                await made[0].write(b"z" * MIB)
                made[0].finish()

        async with asyncio.TaskGroup() as group:
            group.create_task(serve())
            async with SpdyConnection.over(ours) as client:
                stream = await client.open({})
                await settle()  # all has arrived, as far as anyone takes it
                got = 0
                while piece := await stream.read():
                    got += len(piece)
                assert got == MIB


async def test_a_reader_that_does_not_read_stops_the_writer() -> None:
    made: list[SpdyStream] = []

    def accept(stream: SpdyStream) -> bool:
        made.append(stream)
        return True

    async with _talking(accept) as client:
        stream = await client.open({})
        written = 0

        async def write() -> None:
            nonlocal written
            while True:
                await stream.write(b"x" * 64 * KIB)
                written += 64 * KIB

        writing = asyncio.create_task(write())
        before = -1
        while written != before:
            before = written
            await settle()
        assert made[0].held <= 600 * KIB
        assert written <= 4 * MIB
        writing.cancel()
        made[0].reset()
        await asyncio.gather(writing, return_exceptions=True)


async def test_pings_are_answered_and_own_ones_not() -> None:
    async with _peer(lambda _: True) as (_, peer):
        await peer.send(Ping(2), Ping(5))
        assert await peer.receive() == Ping(5)


async def test_streams_with_wrong_numbers_are_reset() -> None:
    async with _peer(lambda _: True) as (_, peer):
        await peer.send(SynStream(2), SynStream(5), SynStream(3))
        assert await peer.receive() == RstStream(2, 1)
        assert await peer.receive() == SynReply(5)
        assert await peer.receive() == RstStream(3, 1)
        await peer.send(Data(77, b"x"))
        assert await peer.receive() == RstStream(77, 2)


async def test_too_many_streams() -> None:
    async with _peer(lambda _: True, Bounds(streams=2, linger=0.0)) as (_, peer):
        await peer.send(SynStream(1), SynStream(3), SynStream(5))
        assert [await peer.receive() for _ in range(3)] == [SynReply(1), SynReply(3), RstStream(5, 3)]


async def test_a_stream_that_ends_as_it_begins() -> None:
    made: list[SpdyStream] = []

    def accept(stream: SpdyStream) -> bool:
        made.append(stream)
        return True

    async with _peer(accept) as (_, peer):
        await peer.send(SynStream(1, fin=True), SynStream(3), HeadersFrame(3, {"x": "y"}, fin=True))
        assert await peer.receive() == SynReply(1)
        assert await peer.receive() == SynReply(3)
        assert await made[0].read() == b""
        assert await made[1].read() == b""


async def test_a_peer_that_breaks_the_protocol_is_left() -> None:
    async with _peer(lambda _: True) as (connection, peer):
        await peer.send_bytes(b"\x80\x03\x00\x01\x00\xff\xff\xff")
        await connection.ended.wait()
        assert await peer.receive() == GoAway(0, 1)


async def test_a_peer_that_asks_and_never_listens() -> None:
    async with _peer(lambda _: True, Bounds(queued_at_most=64 * KIB, flush=0.1, linger=0.0)) as (connection, peer):
        with pytest.raises(ConnectionError):
            while not connection.ended.is_set():
                await peer.send(*[Ping(2 * number + 1) for number in range(1000)])
            raise ConnectionResetError
        assert connection.ended.is_set()


async def _answered(peer: Peer, number: int) -> None:
    """The connection still reads: it answers a ping."""
    await peer.send(Ping(number))
    async with asyncio.timeout(20 * PATIENCE):
        while await peer.receive() != Ping(number):
            pass


async def _silent(peer: Peer, number: int) -> None:
    """The connection has stopped reading: it answers no ping."""
    await peer.send(Ping(number))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            while await peer.receive() != Ping(number):
                pass


@asynccontextmanager
async def _filled(bounds: Bounds, *sizes: int) -> AsyncIterator[tuple[list[SpdyStream], Peer]]:
    """Streams that got so many bytes each, which were not read."""
    made: list[SpdyStream] = []

    def accept(stream: SpdyStream) -> bool:
        made.append(stream)
        return True

    async with _peer(accept, bounds) as (_, peer):
        for number, size in enumerate(sizes):
            await peer.send(SynStream(2 * number + 1), Data(2 * number + 1, b"x" * size))
        yield made, peer


async def test_streams_that_hold_too_much_together_stop_the_connection_until_one_is_read() -> None:
    bounds = Bounds(held=64 * KIB, held_total=128 * KIB, linger=0.0)
    async with _filled(bounds, 60 * KIB, 60 * KIB, 60 * KIB) as (made, peer):
        await until(lambda: sum(stream.held for stream in made) == 180 * KIB)
        await _silent(peer, 1)
        assert len(await made[0].read()) == 60 * KIB
        await _answered(peer, 3)


async def test_streams_that_hold_little_together_do_not_stop_the_connection() -> None:
    bounds = Bounds(held=64 * KIB, held_total=128 * KIB, linger=0.0)
    async with _filled(bounds, 40 * KIB, 40 * KIB, 40 * KIB) as (_, peer):
        await _answered(peer, 1)


async def test_stream_that_is_reset_holds_nothing_any_more() -> None:
    bounds = Bounds(held=1 * KIB, held_total=2 * KIB, linger=0.0)
    async with _filled(bounds, 2 * KIB) as (made, peer):
        for number in range(1, 5):
            await _silent(peer, 2 * number + 99)
            made[-1].reset()
            await _answered(peer, 2 * number + 199)
            await peer.send(SynStream(2 * number + 1), Data(2 * number + 1, b"x" * 2 * KIB))


async def test_stream_that_is_ignored_holds_nothing() -> None:
    bounds = Bounds(held=1 * KIB, held_total=2 * KIB, linger=0.0)
    async with _filled(bounds, 2 * KIB) as (made, peer):
        await _silent(peer, 1)
        made[0].ignore()
        await peer.send(Data(1, b"x" * 10 * KIB))
        await _answered(peer, 3)
        assert made[0].held == 0


async def test_stream_of_tiny_frames_holds_no_more_than_their_bytes() -> None:
    async with _filled(Bounds(linger=0.0), 2) as (made, peer):
        frames = Encoder().encode(Data(1, b"xy")) * 1000
        tracemalloc.start()
        try:
            for _ in range(50):
                await peer.send_bytes(frames)
            await until(lambda: made[0].held >= 100_002)
            assert tracemalloc.get_traced_memory()[0] < MIB
        finally:
            tracemalloc.stop()


async def test_writer_waits_while_the_queue_is_full_and_goes_on_as_often_as_it_empties() -> None:
    bounds = Bounds(queued=64 * KIB, linger=0.0)
    async with _filled(bounds, 1) as (made, peer):
        assert isinstance(await peer.receive(), SynReply)
        writing = asyncio.create_task(made[0].write(b"x" * 2 * MIB))
        # Nothing is taken, so that the kernel's buffers fill, and then the queue.
        await asyncio.wait({writing}, timeout=0.3)
        assert not writing.done()
        got = 0
        while got < 2 * MIB:
            frame = await peer.receive()
            assert isinstance(frame, Data)
            got += len(frame.data)
        await writing


async def test_queue_that_was_sent_counts_for_nothing() -> None:
    """A peer that listens may ask as often as it likes."""
    async with _peer(lambda _: True, Bounds(queued=1 * KIB, queued_at_most=4 * KIB, linger=0.0)) as (connection, peer):
        for number in range(2000):
            await peer.send(Ping(2 * number + 1))
            assert await peer.receive() == Ping(2 * number + 1)
        assert not connection.ended.is_set()


def _pings(encoder: Encoder) -> bytes:
    return encoder.encode(Ping(2)) * 5000


def _streams_that_are_reset(encoder: Encoder) -> bytes:
    numbers = range(101, 101 + 2 * 1250, 2)
    return b"".join(encoder.encode(SynStream(n)) + encoder.encode(RstStream(n, 5)) for n in numbers)


@pytest.mark.parametrize(("make", "least"), [(_pings, 5000 / 64), (_streams_that_are_reset, 1250 / 4)])
async def test_frames_of_one_peer_leave_others_their_turn(make: Callable[[Encoder], bytes], least: float) -> None:
    """Thousands of frames that came together are not handled in one go; those that open streams are expensive."""
    async with _peer(lambda _: True) as (_, peer), steps_of_another_task() as steps:
        frames = make(Encoder())
        await _answered(peer, 1)
        before = steps.count
        await peer.send_bytes(frames)
        await _answered(peer, 3)
        assert steps.count - before > least


async def test_an_idle_connection_ends() -> None:
    async with _peer(lambda _: True, Bounds(idle=0.05, linger=0.0)) as (connection, _):
        await connection.ended.wait()


async def test_a_server_that_is_not_responding() -> None:
    bounds = Bounds(reply=0.05, flush=0.1, linger=0.0)
    async with asyncio.timeout(20), _pair() as (ours, _), SpdyConnection.over(ours, None, bounds) as client:
        with pytest.raises(TimeoutError):
            await client.open({})


@given(st.lists(FRAMES, max_size=12), st.binary(max_size=40))
@settings(max_examples=60)
def test_whatever_comes_the_connection_ends_in_order(frames: list[Frame], rubbish: bytes) -> None:
    async def talk() -> None:
        streams: list[SpdyStream] = []

        def accept(stream: SpdyStream) -> bool:
            streams.append(stream)
            return bool(stream.headers)

        async with _peer(accept, Bounds(flush=1.0, linger=0.0)) as (connection, peer):
            await peer.send(*frames)
            await peer.send_bytes(rubbish)
            await peer.end()
            await connection.ended.wait()
            for stream in streams:
                with suppress(StreamResetError):
                    while await stream.read():
                        pass

    asyncio.run(talk())

"""SPDY frames: what is encoded is decoded, whatever the pieces, and hostile bytes do no harm."""

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.spdy.codec import Decoder, Encoder, Limits, ProtocolError
from pykubelet.base.spdy.dictionary import DICTIONARY
from pykubelet.base.spdy.frames import Data, Frame, Ping, SynReply, SynStream
from tests.unit.base.spdy.frames import FRAMES


def _joined(frames: list[Frame]) -> list[Frame]:
    """Pieces of data put together again."""
    joined: list[Frame] = []
    for frame in frames:
        last = joined[-1] if joined else None
        if isinstance(frame, Data) and isinstance(last, Data) and last.stream == frame.stream and not last.fin:
            joined[-1] = Data(frame.stream, last.data + frame.data, frame.fin)
        else:
            joined.append(frame)
    return joined


@given(st.lists(FRAMES, max_size=10), st.integers(1, 50))
def test_frames_survive_in_whatever_pieces_they_arrive(frames: list[Frame], piece: int) -> None:
    encoder, decoder = Encoder(), Decoder()
    data = b"".join(encoder.encode(frame) for frame in frames)
    got = [frame for at in range(0, len(data), piece) for frame in decoder.feed(data[at : at + piece])]
    assert _joined(got) == _joined(frames)


@given(st.binary(max_size=200))
def test_rubbish_is_refused_or_understood(data: bytes) -> None:
    try:
        Decoder().feed(data)
    except ProtocolError as error:
        assert str(error)


@given(st.integers(1, 9), st.integers(0, 255), st.binary(max_size=60))
def test_frames_with_rubbish_inside(kind: int, flags: int, body: bytes) -> None:
    head = struct.pack(">II", 0x80030000 | kind, flags << 24 | len(body))
    try:
        frames = Decoder().feed(head + body)
    except ProtocolError as error:
        assert str(error)
    else:
        assert len(frames) <= 1


@given(st.binary(max_size=100))
def test_header_blocks_with_rubbish_inside(block: bytes) -> None:
    packer = zlib.compressobj(zdict=DICTIONARY)
    body = struct.pack(">I", 1) + packer.compress(block) + packer.flush(zlib.Z_SYNC_FLUSH)
    try:
        Decoder().feed(struct.pack(">II", 0x80030002, len(body)) + body)
    except ProtocolError as error:
        assert str(error)


def _syn_reply(block: bytes) -> bytes:
    packer = zlib.compressobj(9, zdict=DICTIONARY)
    body = struct.pack(">I", 1) + packer.compress(block) + packer.flush(zlib.Z_SYNC_FLUSH)
    return struct.pack(">II", 0x80030002, len(body)) + body


def _word(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (_syn_reply(b"\0" * 100_000), "more than"),
        (_syn_reply(struct.pack(">I", 2**31)), "too many"),
        (_syn_reply(struct.pack(">II", 1, 2**31)), "beyond its block"),
        (_syn_reply(struct.pack(">I", 1) + _word(b"Upper") + _word(b"")), "lower case"),
        (_syn_reply(struct.pack(">I", 1) + _word(b"") + _word(b"")), "empty"),
        (_syn_reply(struct.pack(">I", 2) + 2 * (_word(b"a") + _word(b""))), "twice"),
        (_syn_reply(struct.pack(">I", 5)), "malformed"),
        (struct.pack(">II", 0x80030001, 2**24 - 1), "too large"),
        (struct.pack(">II", 0x80020001, 0), "version 2"),
        (struct.pack(">II", 0, 5), "stream 0"),
        (struct.pack(">II", 0x80030004, 4) + struct.pack(">I", 2**30), "SETTINGS"),
        (struct.pack(">II", 0x80030006, 2) + b"\0\0", "malformed PING"),
        (struct.pack(">II", 0x80030003, 8) + struct.pack(">II", 0, 5), "stream 0"),
        (struct.pack(">II", 0x80030002, 9) + struct.pack(">I", 1) + b"zlib?", "malformed"),
    ],
)
def test_hostile_frame_is_refused_with_its_reason(data: bytes, why: str) -> None:
    with pytest.raises(ProtocolError, match=why):
        Decoder().feed(data)


def test_a_large_frame_of_data_is_not_kept() -> None:
    decoder = Decoder()
    assert decoder.feed(struct.pack(">II", 1, 1 << 24 | 1_000_000)) == []
    for _ in range(9):
        assert decoder.feed(b"x" * 100_000) == [Data(1, b"x" * 100_000)]
    assert decoder.feed(b"x" * 100_000) == [Data(1, b"x" * 100_000, fin=True)]


def test_unknown_control_frames_are_skipped_and_not_kept() -> None:
    decoder = Decoder(Limits(control=1000))
    assert decoder.feed(struct.pack(">II", 0x8003000A, 900)) == []
    assert decoder.feed(b"x" * 899) == []
    assert decoder.feed(b"x" + Encoder().encode(Ping(7))) == [Ping(7)]


def test_several_values_of_one_header_are_kept_apart() -> None:
    (frame,) = Decoder().feed(Encoder().encode(SynReply(1, {"a": "x\0y"})))
    assert isinstance(frame, SynReply)
    assert frame.headers == {"a": "x\0y"}


def test_more_data_than_fits_in_a_frame() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        Encoder().encode(Data(1, bytes(1 << 24)))


def test_frame_of_the_go_implementation_is_decoded() -> None:
    """SYN_STREAM as Go's spdystream writes it."""
    recorded = bytes.fromhex(
        "80030001000000290000000100000000000078f9e3c6a7c26260606004a7b392a2d4c45c6851c29a0a0a6800000000ffff"
    )
    (frame,) = Decoder().feed(recorded)
    assert isinstance(frame, SynStream)
    assert (frame.stream, frame.headers["streamtype"]) == (1, "error")

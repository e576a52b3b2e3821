"""Encoding and decoding of frames. Pure; received data is checked against limits before it is kept.

Header blocks of one direction share one zlib stream, so an ``Encoder`` and a ``Decoder`` belong to one connection, and
each frame must be sent in the order in which it was encoded.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import assert_never

from msgspec import Struct

from pykubelet.base.errors import Invalid
from pykubelet.base.spdy.dictionary import DICTIONARY
from pykubelet.base.spdy.frames import (
    Data,
    Frame,
    FrameType,
    GoAway,
    Headers,
    HeadersFrame,
    Ping,
    RstStream,
    SettingsFrame,
    SynReply,
    SynStream,
    WindowUpdate,
)
from pykubelet.base.units import KIB

MAX_LENGTH = (1 << 24) - 1
_VERSION = 3
_CONTROL = 0x8000
_HEAD = struct.Struct(">II")
_WORD = struct.Struct(">I")
_PAIR = struct.Struct(">II")
_FIN = 1
_UNIDIRECTIONAL = 2
_ID = 0x7FFFFFFF


class ProtocolError(Invalid):
    """The peer has violated the protocol; the connection must be closed."""


class Limits(Struct, frozen=True):
    """Limits of frames from the peer. Header blocks of the streaming protocols have some hundred bytes."""

    control: int = 16 * KIB
    """Bytes of a control frame."""
    headers: int = 16 * KIB
    """Bytes of a header block, decompressed."""
    names: int = 64
    """Headers in a block."""


class Encoder:
    """Encodes the frames of one connection in the order in which they are sent."""

    def __init__(self) -> None:
        # A window that holds the dictionary suffices for headers: 24 KiB for a connection instead of 256.
        self._zlib = zlib.compressobj(wbits=11, memLevel=5, zdict=DICTIONARY)

    def encode(self, frame: Frame) -> bytes:
        """Encode a frame. Raises ValueError for more data than fits in a frame."""
        match frame:
            case Data():
                return _data(frame)
            case SynStream():
                flags = frame.fin * _FIN | frame.unidirectional * _UNIDIRECTIONAL
                head = struct.pack(">IIBB", frame.stream, frame.associated, frame.priority << 5, 0)
                return _control(FrameType.SYN_STREAM, flags, head + self._block(frame.headers))
            case SynReply():
                body = _WORD.pack(frame.stream) + self._block(frame.headers)
                return _control(FrameType.SYN_REPLY, frame.fin * _FIN, body)
            case HeadersFrame():
                body = _WORD.pack(frame.stream) + self._block(frame.headers)
                return _control(FrameType.HEADERS, frame.fin * _FIN, body)
            case RstStream():
                return _control(FrameType.RST_STREAM, 0, _PAIR.pack(frame.stream, frame.code))
            case SettingsFrame():
                pairs = b"".join(_PAIR.pack(*pair) for pair in frame.values)
                return _control(FrameType.SETTINGS, 0, _WORD.pack(len(frame.values)) + pairs)
            case Ping():
                return _control(FrameType.PING, 0, _WORD.pack(frame.id))
            case GoAway():
                return _control(FrameType.GOAWAY, 0, _PAIR.pack(frame.last, frame.code))
            case WindowUpdate():
                return _control(FrameType.WINDOW_UPDATE, 0, _PAIR.pack(frame.stream, frame.delta))
            case _:
                assert_never(frame)

    def _block(self, headers: Headers) -> bytes:
        parts = [_WORD.pack(len(headers))]
        for text in (part for pair in headers.items() for part in pair):
            data = text.encode("latin-1")
            parts += (_WORD.pack(len(data)), data)
        return self._zlib.compress(b"".join(parts)) + self._zlib.flush(zlib.Z_SYNC_FLUSH)


def _data(frame: Data) -> bytes:
    if len(frame.data) > MAX_LENGTH:
        raise ValueError(f"{len(frame.data)} bytes do not fit in a frame")
    return _HEAD.pack(frame.stream, frame.fin << 24 | len(frame.data)) + frame.data


def _control(kind: FrameType, flags: int, body: bytes) -> bytes:
    return _HEAD.pack((_CONTROL | _VERSION) << 16 | kind, flags << 24 | len(body)) + body


class Decoder:
    """Decodes the frames of one connection. Data is returned in pieces as it arrives: no data frame is kept."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._zlib = zlib.decompressobj(zdict=DICTIONARY)
        self._buffer = bytearray()
        self._stream = 0
        self._fin = False
        self._left = 0
        """Missing bytes of the current data frame."""
        self._skip = 0
        """Missing bytes of a control frame of unknown type."""

    def feed(self, data: bytes) -> list[Frame]:
        """Decode the frames that these bytes complete. Raises ProtocolError; the connection must be closed then."""
        return list(self.frames(data))

    def frames(self, data: bytes) -> Iterator[Frame]:
        """Decode like ``feed``, but each frame only when it is requested: few bytes can be many large frames."""
        self._buffer += data
        while (frame := self._next()) is not None:
            yield frame

    def _next(self) -> Frame | None:
        while True:
            if self._left:
                return self._piece()
            if self._skip:
                skipped = min(self._skip, len(self._buffer))
                del self._buffer[:skipped]
                self._skip -= skipped
            if self._skip or len(self._buffer) < _HEAD.size:
                return None
            first, second = _HEAD.unpack_from(self._buffer)
            flags, length = second >> 24, second & MAX_LENGTH
            if not first >> 31:
                return self._begin_data(first, bool(flags & _FIN), length)
            version, kind = first >> 16 & 0x7FFF, first & 0xFFFF
            if version != _VERSION:
                raise ProtocolError(f"SPDY version {version} is not supported")
            if length > self._limits.control:
                raise ProtocolError(f"a control frame of {length} bytes is too large")
            if kind not in FrameType.__members__.values():
                del self._buffer[: _HEAD.size]
                self._skip = length
                continue
            if len(self._buffer) < _HEAD.size + length:
                return None
            body = bytes(self._buffer[_HEAD.size : _HEAD.size + length])
            del self._buffer[: _HEAD.size + length]
            return self._parse(FrameType(kind), flags, body)

    def _begin_data(self, stream: int, fin: bool, length: int) -> Frame | None:
        if stream == 0:
            raise ProtocolError("data for stream 0")
        del self._buffer[: _HEAD.size]
        if not length:
            return Data(stream, b"", fin)
        self._stream, self._fin, self._left = stream, fin, length
        return self._piece()

    def _piece(self) -> Data | None:
        if not self._buffer:
            return None
        piece = bytes(self._buffer[: self._left])
        del self._buffer[: len(piece)]
        self._left -= len(piece)
        return Data(self._stream, piece, self._fin and not self._left)

    def _parse(self, kind: FrameType, flags: int, body: bytes) -> Frame:
        try:
            return self._parse_body(kind, flags, body)
        except (struct.error, zlib.error) as error:
            raise ProtocolError(f"a malformed {kind.name} frame: {error}") from error

    def _parse_body(self, kind: FrameType, flags: int, body: bytes) -> Frame:
        fin = bool(flags & _FIN)
        match kind:
            case FrameType.SYN_STREAM:
                stream, associated, priority, _ = struct.unpack_from(">IIBB", body)
                headers = self._headers(body[10:])
                one_way = bool(flags & _UNIDIRECTIONAL)
                return SynStream(_known(stream), headers, associated & _ID, priority >> 5, fin, one_way)
            case FrameType.SYN_REPLY:
                return SynReply(_known(_WORD.unpack_from(body)[0]), self._headers(body[4:]), fin)
            case FrameType.HEADERS:
                return HeadersFrame(_known(_WORD.unpack_from(body)[0]), self._headers(body[4:]), fin)
            case FrameType.RST_STREAM:
                stream, code = _PAIR.unpack(body)
                return RstStream(_known(stream), code)
            case FrameType.SETTINGS:
                (count,) = _WORD.unpack_from(body)
                if len(body) != 4 + 8 * count:
                    raise ProtocolError("a SETTINGS frame of the wrong length")
                return SettingsFrame(tuple((pair[0] & 0xFFFFFF, pair[1]) for pair in _PAIR.iter_unpack(body[4:])))
            case FrameType.PING:
                return Ping(_WORD.unpack(body)[0])
            case FrameType.GOAWAY:
                last, code = _PAIR.unpack(body)
                return GoAway(last & _ID, code)
            case FrameType.WINDOW_UPDATE:
                stream, delta = _PAIR.unpack(body)
                return WindowUpdate(stream & _ID, delta & _ID)
            case _:
                assert_never(kind)

    def _headers(self, compressed: bytes) -> Headers:
        # Decompressed even for a stream that is refused: all blocks share one zlib stream.
        block = self._zlib.decompress(compressed, self._limits.headers)
        if self._zlib.unconsumed_tail:
            raise ProtocolError(f"a header block of more than {self._limits.headers} bytes")
        (count,) = _WORD.unpack_from(block)
        if count > self._limits.names:
            raise ProtocolError(f"{count} headers are too many")
        headers: dict[str, str] = {}
        at = 4
        for _ in range(count):
            name, at = _text(block, at)
            value, at = _text(block, at)
            if not name or name != name.lower() or name in headers:
                raise ProtocolError(f"the header {name[:50]!r} is empty, not in lower case, or there twice")
            headers[name] = value
        return headers


def _text(block: bytes, at: int) -> tuple[str, int]:
    (length,) = _WORD.unpack_from(block, at)
    end = at + 4 + length
    if end > len(block):
        raise ProtocolError("a header reaches beyond its block")
    return block[at + 4 : end].decode("latin-1"), end


def _known(stream: int) -> int:
    if not stream & _ID:
        raise ProtocolError("a frame for stream 0")
    return stream & _ID

"""The frames of ttRPC: a header of ten bytes, then a message.

Header: length of the message, number of the stream, kind, flags; the numbers are big-endian. A client numbers its
calls 1, 3, 5, …; the response has the number of its request. Source: PROTOCOL.md of github.com/containerd/ttrpc.
"""

import struct
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from pykubelet.base.errors import Permanent
from pykubelet.base.units import KIB, MIB

_HEADER: Final = struct.Struct(">IIBB")
LONGEST: Final = 4 * MIB
"""Maximum size of a message in bytes, as in containerd."""
PIECE: Final = 4 * KIB
"""Bytes of a connection that are handled before the event loop runs other tasks: a frame may have ten."""
REQUEST: Final = 1
RESPONSE: Final = 2


class Frame(Struct, frozen=True):
    """A message of a stream."""

    stream: int
    kind: int
    message: bytes

    def encode(self) -> bytes:
        """Return the frame's bytes. Permanent: the message is too long."""
        if len(self.message) > LONGEST:
            raise Permanent(f"a ttRPC message of {len(self.message)} bytes is longer than {LONGEST}")
        return _HEADER.pack(len(self.message), self.stream, self.kind, 0) + self.message


class FrameReader:
    """Splits received bytes into frames."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are complete with these bytes. Permanent: a frame is too long."""
        self._data += data
        while len(self._data) >= _HEADER.size:
            length, stream, kind, _ = _HEADER.unpack_from(self._data)
            if length > LONGEST:
                raise Permanent(f"a ttRPC message of {length} bytes is longer than {LONGEST}")
            end = _HEADER.size + length
            if len(self._data) < end:
                return
            message = bytes(self._data[_HEADER.size : end])
            del self._data[:end]
            yield Frame(stream, kind, message)

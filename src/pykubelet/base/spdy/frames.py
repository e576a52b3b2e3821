"""Frames of SPDY/3.1 as values (SPDY protocol draft 3.1, section 2)."""

from collections.abc import Mapping
from enum import IntEnum
from typing import TypeAlias

from msgspec import Struct, field

Headers: TypeAlias = Mapping[str, str]
"""Headers by name in lower case. Several values of one name are joined by NUL."""


class FrameType(IntEnum):
    """Types of SPDY control frames."""

    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    HEADERS = 8
    WINDOW_UPDATE = 9


class ResetCode(IntEnum):
    """The reason for a stream reset."""

    PROTOCOL_ERROR = 1
    INVALID_STREAM = 2
    REFUSED_STREAM = 3
    UNSUPPORTED_VERSION = 4
    CANCEL = 5
    INTERNAL_ERROR = 6
    FLOW_CONTROL_ERROR = 7
    STREAM_IN_USE = 8
    STREAM_ALREADY_CLOSED = 9
    FRAME_TOO_LARGE = 11


class GoAwayCode(IntEnum):
    """The reason for closing a connection."""

    OK = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2


class SynStream(Struct, frozen=True):
    """A new stream. ``fin``: its sender sends nothing on it; ``unidirectional``: nor may the receiver."""

    stream: int
    headers: Headers = field(default_factory=dict)
    associated: int = 0
    priority: int = 0
    fin: bool = False
    unidirectional: bool = False


class SynReply(Struct, frozen=True):
    """The peer accepts the stream."""

    stream: int
    headers: Headers = field(default_factory=dict)
    fin: bool = False


class RstStream(Struct, frozen=True):
    """The end of a stream in both directions. ``code`` is a ``ResetCode`` or an unknown number."""

    stream: int
    code: int


class SettingsFrame(Struct, frozen=True):
    """SettingsFrame as pairs of identifier and value."""

    values: tuple[tuple[int, int], ...] = ()


class Ping(Struct, frozen=True):
    """A ping; the receiver sends it back if the peer started it."""

    id: int


class GoAway(Struct, frozen=True):
    """The sender accepts no new streams after ``last``."""

    last: int
    code: int = GoAwayCode.OK


class HeadersFrame(Struct, frozen=True):
    """More headers of a stream."""

    stream: int
    headers: Headers = field(default_factory=dict)
    fin: bool = False


class WindowUpdate(Struct, frozen=True):
    """Permission to send ``delta`` more bytes."""

    stream: int
    delta: int


class Data(Struct, frozen=True):
    """A piece of a stream's data. ``fin``: it is the last one."""

    stream: int
    data: bytes = b""
    fin: bool = False


Frame: TypeAlias = SynStream | SynReply | RstStream | SettingsFrame | Ping | GoAway | HeadersFrame | WindowUpdate | Data

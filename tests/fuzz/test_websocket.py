"""Arbitrary WebSocket frames against the streaming server: its buffers stay small, and it serves the next client."""

import struct
from dataclasses import dataclass

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pykubelet.base.units import MIB
from tests.fuzz.hostile_streams import EXAMPLES, run_attack

_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10
_MASK = b"\0\0\0\0"


@dataclass(frozen=True)
class WsFrame:
    """One frame; ``claimed`` is added to the length in its header."""

    opcode: int
    payload: bytes
    final: bool = True
    reserved: int = 0
    masked: bool = True
    claimed: int = 0

    def encode(self) -> bytes:
        first = self.final << 7 | self.reserved << 4 | self.opcode
        length, mask = len(self.payload) + self.claimed, 0x80 if self.masked else 0
        if length < 126:
            head = bytes((first, mask | length))
        elif length < 1 << 16:
            head = bytes((first, mask | 126)) + struct.pack(">H", length)
        else:
            head = bytes((first, mask | 127)) + struct.pack(">Q", length)
        return head + (_MASK if self.masked else b"") + self.payload


_RESIZE = b'{"Width": 80, "Height": 24}'
_CONTENT = st.one_of(
    st.binary(max_size=100),
    st.sampled_from([b"", b"x" * 1000, _RESIZE, b"{" * 1000, b"[" * 5000, b"1" * 5000]),
)
_PAYLOADS = st.one_of(
    st.just(b""), st.builds(lambda channel, content: bytes([channel]) + content, st.integers(0, 255), _CONTENT)
)
_FRAMES = st.builds(
    WsFrame,
    st.sampled_from([_BINARY] * 6 + [_TEXT, _CONTINUATION, _CONTINUATION, _CLOSE, _PING, _PONG, 3, 15]),
    _PAYLOADS,
    st.sampled_from([True, True, False]),
    st.sampled_from([0] * 8 + [1, 4]),
    st.sampled_from([True] * 8 + [False]),
    st.sampled_from([0] * 12 + [1, 1000, 5 * MIB, 1 << 62]),
)


@dataclass(frozen=True)
class Burst:
    """Frames that are repeated."""

    frames: list[WsFrame]
    times: int

    def encode(self) -> bytes:
        return b"".join(frame.encode() for frame in self.frames) * self.times


_TIMES = st.sampled_from([1, 1, 2, 50, 300])
_BURSTS = st.lists(st.builds(Burst, st.lists(_FRAMES, min_size=1, max_size=5), _TIMES), max_size=5)
_FILL = Burst([WsFrame(_BINARY, b"\0" + b"x" * 30_000)], 20)
"""More data than the pipe of a command that does not read can hold."""
_EMPTY = [_FILL, Burst([WsFrame(_BINARY, b"")], 100_000)]
_PINGS = [_FILL, Burst([WsFrame(_PING, b"")], 100_000)]
_SIZES = [_FILL, Burst([WsFrame(_BINARY, b"\4" + _RESIZE)], 10_000)]
_BEGUN = Burst([WsFrame(_BINARY, b"\0", final=False)], 1)
_FRAGMENTS = [_BEGUN, Burst([WsFrame(_CONTINUATION, b"x", final=False)], 50_000)]
_UNFINISHED = [_BEGUN, Burst([WsFrame(_CONTINUATION, b"x" * 60_000, final=False)], 200)]
_ONE_BYTE = [Burst([WsFrame(_BINARY, b"\2x")], 6_000)]
_PROTOCOLS = ["v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io", "channel.k8s.io", ""]


def _head(protocol: str, host: str, path: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}", "Connection: Upgrade", "Upgrade: websocket"]
    lines += ["Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
    lines += [f"Sec-WebSocket-Protocol: {protocol}"] if protocol else []
    return "\r\n".join([*lines, "", ""]).encode()


@settings(max_examples=EXAMPLES)
@given(st.sampled_from(["forward", "tunnel", "exec", "exec-deaf"]), st.sampled_from(_PROTOCOLS), _BURSTS, st.booleans())
@example("exec-deaf", "v4.channel.k8s.io", _EMPTY, False)
@example("exec-deaf", "v4.channel.k8s.io", _PINGS, False)
@example("exec-deaf", "v4.channel.k8s.io", _SIZES, False)
@example("exec-deaf", "v4.channel.k8s.io", _FRAGMENTS, False)
@example("exec-deaf", "v4.channel.k8s.io", _UNFINISHED, False)
@example("forward", "v4.channel.k8s.io", _ONE_BYTE, False)
@example("tunnel", "", _UNFINISHED, False)
def test_websocket_frames_of_any_kind_take_bounded_memory(
    kind: str, protocol: str, bursts: list[Burst], listens: bool
) -> None:
    if kind == "tunnel":
        protocol = "SPDY/3.1+portforward.k8s.io"
    elif kind == "forward" and "v4" not in protocol:
        protocol = "v4.channel.k8s.io"
    data = b"".join(burst.encode() for burst in bursts)
    run_attack(kind, lambda host, path: _head(protocol, host, path), lambda _: data, listens)

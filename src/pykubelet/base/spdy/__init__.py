"""SPDY/3.1, the protocol below ``kubectl exec``, ``attach``, ``cp`` and ``port-forward``.

The codec is pure; a connection runs over any link that carries bytes, a socket or a WebSocket. Its peers (Go's
moby/spdystream) have no flow control: they neither send WINDOW_UPDATE nor obey it. So the only backpressure is that of
the link. The package imports ``base`` only; start reading at ``connection.py``.
"""

from pykubelet.base.spdy.codec import Decoder, Encoder, Limits, ProtocolError
from pykubelet.base.spdy.connection import Bounds, SpdyConnection
from pykubelet.base.spdy.frames import ResetCode
from pykubelet.base.spdy.link import Link, StreamLink, WebSocketLink
from pykubelet.base.spdy.stream import SpdyStream, StreamResetError

__all__ = [
    "Bounds",
    "Decoder",
    "Encoder",
    "Limits",
    "Link",
    "ProtocolError",
    "ResetCode",
    "SpdyConnection",
    "SpdyStream",
    "StreamLink",
    "StreamResetError",
    "WebSocketLink",
]

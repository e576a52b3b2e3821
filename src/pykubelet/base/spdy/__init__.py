"""SPDY/3.1, the protocol below ``kubectl exec``, ``attach``, ``cp`` and ``port-forward``.

The codec is pure; the connection runs over any link that carries bytes, so over a socket as well as over a WebSocket.
Its peers (Go's moby/spdystream) know no flow control: they neither send WINDOW_UPDATE nor obey it. So the only
backpressure there is, is that of the connection below.
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

"""exec, attach and port-forward: joins a client's upgraded connection to the runtime's streaming server.

All servers of the agent use it. Where client and runtime speak the same protocol, bytes are passed on unread. Where the
client's protocol is too new for the runtime (``v5.channel.k8s.io``, SPDY in a WebSocket), it is translated to SPDY,
which every runtime speaks. Start reading in ``stream_proxy.py``. Imports no package beside it.
"""

from pykubelet.kubelet.serve.streams.stream_backend import check_upgrade
from pykubelet.kubelet.serve.streams.stream_interfaces import Streams
from pykubelet.kubelet.serve.streams.stream_proxy import GetUrl, StreamProxy
from pykubelet.kubelet.serve.streams.stream_types import StreamOptions, StreamSet

__all__ = ["GetUrl", "StreamOptions", "StreamProxy", "StreamSet", "Streams", "check_upgrade"]

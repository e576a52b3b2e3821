"""exec, attach and port-forward: a client's upgraded connection joined to the runtime's streaming server.

Used by all servers of the agent. Where client and runtime speak the same protocol no byte is looked at; where the
client's is too new for the runtime (``v5.channel.k8s.io``, SPDY in a WebSocket), it is translated to SPDY, which
every runtime speaks.
"""

from pykubelet.kubelet.report.streamproxy.backend import check_upgrade
from pykubelet.kubelet.report.streamproxy.proxy import GetUrl, StreamProxy
from pykubelet.kubelet.report.streamproxy.types import StreamSet

__all__ = ["GetUrl", "StreamProxy", "StreamSet", "check_upgrade"]

"""exec, attach and port-forward: an HTTP server on loopback whose URLs work once and not for long.

A CRI call leaves a request here and gets a URL; the kubelet joins its client's connection to that URL.
"""

from pykubelet.criserver.streaming.server import StreamingServer
from pykubelet.criserver.streaming.types import AttachTo, Execution, Forward

__all__ = ["AttachTo", "Execution", "Forward", "StreamingServer"]

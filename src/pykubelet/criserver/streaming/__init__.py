"""The streaming server for exec, attach and port-forward: HTTP on loopback, with URLs that work once, for a minute.

A CRI call registers a request here and gets a URL; the kubelet connects its client to that URL. Imports of the server:
``oci``. Start reading at ``server.py``; then ``commands/execute.py``, ``attach.py`` and ``forward.py``, and the
protocols ``spdy_client.py``, ``forward_spdy.py``, ``websocket.py`` and ``forward_websocket.py``.
"""

from pykubelet.criserver.streaming.server import StreamingServer
from pykubelet.criserver.streaming.streaming_types import AttachTarget, Execution, Forward

__all__ = ["AttachTarget", "Execution", "Forward", "StreamingServer"]

"""Unix sockets: who listens."""

import socket
import struct
from pathlib import Path

_CREDENTIALS = struct.Struct("iII")


def listener(path: Path) -> int:
    """The process that has begun to listen on a unix socket; 0 when nobody listens. Blocks shortly.

    A socket file says nothing: the descriptor of a dead listener may live on in a child of it, which never answers.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        if probe.connect_ex(str(path)) != 0:
            return 0
        data = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid: int = _CREDENTIALS.unpack(data)[0]
    return pid

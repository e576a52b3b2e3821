"""Unix sockets: the process that listens on one."""

import socket
import struct
from pathlib import Path

_CREDENTIALS = struct.Struct("iII")


def listener(path: Path) -> int:
    """The pid of the process that called listen(2) on a Unix socket; 0 if no process listens. Blocks briefly.

    The socket file alone proves nothing: a child of a dead listener may have inherited its descriptor and never accept.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        if probe.connect_ex(str(path)) != 0:
            return 0
        data = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid: int = _CREDENTIALS.unpack(data)[0]
    return pid

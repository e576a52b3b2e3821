"""Who listens on a socket."""

import os
import socket
from pathlib import Path

from pykubelet.linux.sockets import listener


def test_listener_is_found_or_reported_missing(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    assert listener(path) == 0
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        assert listener(path) == 0
        server.listen()
        assert listener(path) == os.getpid()
    assert listener(path) == 0

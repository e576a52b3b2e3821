"""Who listens on a socket."""

import os
import socket
from pathlib import Path

from pykubelet.linux.sockets import interface_addresses, listener


def test_listener_is_found_or_reported_missing(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    assert listener(path) == 0
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        assert listener(path) == 0
        server.listen()
        assert listener(path) == os.getpid()
    assert listener(path) == 0


def test_interfaces_have_the_addresses_that_can_be_bound() -> None:
    found = interface_addresses()
    assert "127.0.0.1" in found
    for address in found - {each for each in found if each.startswith("fe80:")}:  # those need a zone
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))

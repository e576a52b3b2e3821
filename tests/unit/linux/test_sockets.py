"""Listeners of a socket, and messages of the kernel over netlink."""

import os
import socket
import struct
from pathlib import Path

import pytest

from pykubelet.linux.sockets import interface_addresses, listener, nftables_generation


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


def test_nftables_generation_is_that_of_the_kernel() -> None:
    try:
        found = nftables_generation()
    except OSError:
        pytest.skip("this kernel has no nftables")
    assert found > 0


@pytest.mark.parametrize("answer", [b"", b"\0" * 20, struct.pack("=IHHIIi", 20, 2, 0, 1, 0, -93)])
def test_answer_without_a_generation_is_an_error(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    class Kernel:
        def __enter__(self) -> "Kernel":
            return self

        def __exit__(self, *reported: object) -> None:
            pass

        def settimeout(self, seconds: float) -> None:
            pass

        def sendto(self, data: bytes, to: tuple[int, int]) -> None:
            pass

        def recv(self, most: int) -> bytes:
            return answer

    monkeypatch.setattr(socket, "socket", lambda *reported: Kernel())
    with pytest.raises(OSError):
        nftables_generation()

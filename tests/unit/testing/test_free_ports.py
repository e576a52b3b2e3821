import socket
from pathlib import Path

import pytest

from pykubelet.testing import free_ports
from pykubelet.testing.free_ports import free_port


def test_ports_are_given_once_and_are_not_ephemeral() -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    if first < free_ports._PORTS.stop:
        pytest.skip(f"this machine's ephemeral ports begin at {first}")
    given = [free_port() for _ in range(20)]
    assert len(set(given)) == 20
    assert max(given) < first


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_port_of_a_listener_is_left_out(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, other = free_port(), free_port()
    monkeypatch.setattr(free_ports, "_PORTS", [taken, other])
    with socket.create_server((address, taken)):
        assert list(free_ports._free_ports()) == [other]

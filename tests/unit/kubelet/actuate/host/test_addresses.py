"""The node's addresses follow the machine."""

import socket
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pykubelet.kubelet.actuate.host.addresses import AddressReaders, NodeAddresses
from pykubelet.kubelet.config import KubeletConfiguration, Settings
from pykubelet.testing.clock import VirtualClock


@dataclass
class Network:
    """A machine whose network changes."""

    local: set[str] = field(default_factory=lambda: {"127.0.0.1"})
    routes: tuple[str, ...] = ()
    names: tuple[str, ...] | OSError = ()

    def look_up(self, name: str) -> tuple[str, ...]:
        assert name == "node-1"
        if isinstance(self.names, OSError):
            raise self.names
        return self.names

    def addresses(self, **fields: object) -> tuple[NodeAddresses, list[tuple[str, ...]]]:
        changes: list[tuple[str, ...]] = []
        settings = Settings("node-1", KubeletConfiguration(), "unix:///none", root_dir=Path("/none"), **fields)  # type: ignore[arg-type]
        machine = AddressReaders(lambda: frozenset(self.local), lambda: self.routes, self.look_up)
        return NodeAddresses(settings, changed=changes.append, clock=VirtualClock(), machine=machine), changes


async def test_an_agent_started_before_the_network_finds_its_address(caplog: pytest.LogCaptureFixture) -> None:
    network = Network(names=("127.0.1.1",))
    addresses, changes = network.addresses()
    assert await addresses.read() is None and await addresses.read() is None
    (reported,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "--node-ip" in getattr(reported, "error", "")
    network.local.add("10.0.0.5")
    network.routes = ("10.0.0.5",)
    assert await addresses.read() == ("10.0.0.5",) == await addresses.read()
    # DHCP gives another address.
    network.local, network.routes = {"127.0.0.1", "10.0.0.77"}, ("10.0.0.77",)
    assert await addresses.read() == ("10.0.0.77",)
    assert changes == [("10.0.0.5",), ("10.0.0.77",)]


async def test_the_address_of_the_name_comes_before_that_of_the_route() -> None:
    network = Network({"10.0.0.5", "10.0.0.6"}, ("10.0.0.5",), ("10.0.0.6",))
    addresses, changes = network.addresses(node_ips=("10.0.0.5",))
    assert await addresses.read() == ("10.0.0.6",) and changes == [("10.0.0.6",)]
    network.names = socket.gaierror(socket.EAI_AGAIN, "no answer")
    assert await addresses.read() == ("10.0.0.6",)
    network.names = socket.gaierror(socket.EAI_NONAME, "unknown")
    assert await addresses.read() == ("10.0.0.5",)


async def test_a_given_address_has_to_be_on_the_machine() -> None:
    network = Network(routes=("10.0.0.5",), names=("10.0.0.5",))
    addresses, changes = network.addresses(given_ips=("192.0.2.7",), node_ips=("192.0.2.7",))
    assert await addresses.read() is None and changes == []
    network.local.add("192.0.2.7")
    assert await addresses.read() == ("192.0.2.7",)

"""The list of a pod's network interfaces is bounded."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pykubelet.criserver.stats import collector
from pykubelet.linux.namespaces import Namespace
from pykubelet.linux.procparse import NetDevice


def test_of_very_many_interfaces_of_a_pod_not_all_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod with CAP_NET_ADMIN can make thousands."""
    devices = (NetDevice("lo"), *(NetDevice(f"x{number}") for number in range(1000)), NetDevice("eth0"))

    def call_in(path: str, kind: Namespace, function: Callable[[], object]) -> tuple[NetDevice, ...]:
        return devices

    monkeypatch.setattr(collector, "call_in", call_in)
    found = collector._interfaces(str(Path("/run/netns/x")))
    assert len(found) == 64 and found[0].name == "eth0"

"""The list of a pod's network interfaces is bounded."""

from pathlib import Path

import pytest

from pykubelet.kubelet.observe.stats.cgroup_reader import CgroupReader
from pykubelet.kubelet.observe.stats.machine_reader import MachineReader
from pykubelet.linux import procfs
from pykubelet.linux.cgroups import Layout, Mode
from pykubelet.linux.procparse import NetDevice


def test_of_very_many_interfaces_of_a_pod_not_all_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that can make user namespaces can make thousands of interfaces in a network namespace of its own."""
    layout = Layout(Mode.V2, tmp_path)
    reader = MachineReader(layout=layout, cgroups=CgroupReader(layout), runtime_endpoint="")
    devices = (*(NetDevice(f"x{number}") for number in range(1000)), NetDevice("eth0"))
    monkeypatch.setattr(procfs, "namespace", lambda pid, kind: procfs.Identity(0, 0))
    monkeypatch.setattr(procfs, "network_devices", lambda pid: devices)
    found = reader.pod_network([1])
    assert len(found) == 64 and found[0].name == "eth0"

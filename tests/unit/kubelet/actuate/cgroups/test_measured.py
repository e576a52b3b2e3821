"""Measured cgroup driver: operations are measured and otherwise unchanged."""

from pathlib import Path

import pytest

from pykubelet.base.errors import NotFound
from pykubelet.kubelet.actuate.cgroups.measured import MeasuredCgroups
from pykubelet.linux.cgroups import CgroupResources
from pykubelet.linux.cgroups.v2 import CgroupV2
from pykubelet.testing.cgroups import FakeCgroupFiles
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.meter import RecordingMeter


def test_operations_are_measured_and_reads_are_not(tmp_path: Path) -> None:
    meter, files = RecordingMeter(), FakeCgroupFiles(tmp_path / "cgroup")
    cgroups = MeasuredCgroups(driver=CgroupV2(files.root, files), meter=meter, clock=VirtualClock())
    cgroups.create("/pods", CgroupResources(cpu_shares=2))
    cgroups.update("/pods", CgroupResources(cpu_shares=4))
    assert cgroups.exists("/pods") and cgroups.version == 2
    assert cgroups.children("/pods") == frozenset() and cgroups.procs("/pods") == frozenset()
    cgroups.delete("/pods")
    with pytest.raises(NotFound):
        cgroups.update("/pods", CgroupResources(cpu_shares=2))
    assert meter.lines == ["cgroup create", "cgroup update", "cgroup destroy", "cgroup update"]

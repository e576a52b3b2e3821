"""Cgroups on a fake file system, in virtual time."""

from pathlib import Path

import pytest

from pykubelet.kubelet.actuate.cgroups import (
    PodCgroupManager,
)
from pykubelet.linux.cgroups.v2 import CgroupV2
from pykubelet.testing.clock import VirtualClock
from tests.unit.kubelet.actuate.cgroups.kit import CONFIG, SignallingFiles


@pytest.fixture
def files(tmp_path: Path) -> SignallingFiles:
    return SignallingFiles(tmp_path / "cgroup")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def manager(files: SignallingFiles, clock: VirtualClock) -> PodCgroupManager:
    return PodCgroupManager(cgroups=CgroupV2(files.root, files), config=CONFIG, clock=clock)

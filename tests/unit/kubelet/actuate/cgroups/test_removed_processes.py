"""The removal of a pod's cgroup signals the processes in it, and none that only has the PID of one."""

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pykubelet.base.errors import Transient
from pykubelet.base.units import Bytes, MilliCPU
from pykubelet.kubelet.actuate.cgroups import NodePolicy, PodCgroupConfig, PodCgroupManager, RootLimits
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.linux.cgroups import CgroupDriver
from pykubelet.linux.cgroups.files import CgroupFiles
from pykubelet.linux.cgroups.v1 import CgroupV1
from pykubelet.linux.cgroups.v2 import CgroupV2
from pykubelet.testing.clock import VirtualClock

_CONFIG = PodCgroupConfig(
    policy=NodePolicy(memory_capacity=Bytes(8 << 30)),
    root_limits=RootLimits(cpu=MilliCPU(1500), memory=Bytes(7 << 30), pids=1000),
)


class BriefCgroup(CgroupFiles):
    """A cgroup whose process is in it only when it is listed first: ended, and another process gets its PID.

    With ``stays``, it is in it each time. The cgroup can be removed when the processes have been listed.
    """

    def __init__(self, stays: bool) -> None:
        self._stays = stays
        self.listed = 0

    def read(self, path: Path) -> str:
        found = super().read(path)
        self.listed += path.name == "cgroup.procs" and bool(found)
        return found if self._stays or self.listed <= 1 else ""

    def remove(self, path: Path) -> None:
        if self.listed == 0 and (path / "cgroup.procs").read_text():
            raise Transient("it has processes")
        if path.exists():
            shutil.rmtree(path)


@contextmanager
def _process(*argv: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(argv) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("stays", [True, False], ids=["its-own", "reused-pid"])
async def test_removed_pod_signals_only_processes_of_its_cgroup(tmp_path: Path, version: int, stays: bool) -> None:
    files = BriefCgroup(stays)
    driver: CgroupDriver = CgroupV1({"memory": tmp_path}, files=files) if version == 1 else CgroupV2(tmp_path, files)
    manager = PodCgroupManager(cgroups=driver, config=_CONFIG, clock=VirtualClock())
    directory = tmp_path / "kubepods" / "poduid1"
    directory.mkdir(parents=True)
    with _process("sleep", "60") as process:
        (directory / "cgroup.procs").write_text(f"{process.pid}\n")
        await manager.remove_pod(PodUID("uid1"))
        assert not directory.exists()
        if stays:
            assert process.wait(10) == -signal.SIGKILL
        else:
            assert files.listed > 1
            assert process.poll() is None

"""A container that has written many files is removed before they are deleted, and a killed server goes on deleting."""

import os
import signal
import time
from pathlib import Path

import pytest

from pykubelet.criserver.storage.plan.pace import pace
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.linux import procfs
from pykubelet.linux.filesystems import fsusage
from pykubelet.testing.agent import wait_for
from pykubelet.testing.killstage import Pod, Stage
from pykubelet.testing.patience import PATIENCE

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.slow, pytest.mark.timeout(900)]

_DIRECTORIES = 50
_FILES = 1000 * _DIRECTORIES
_WRITE = (
    "mkdir /many; cd /many; i=0; "
    f"while [ $i -lt {_DIRECTORIES} ]; do mkdir $i; cd $i; seq 1000 | xargs touch; cd ..; i=$((i+1)); done"
)


def _count(directory: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(directory))


def _workers(trash: Path) -> list[int]:
    """The processes that delete below this directory."""
    return [pid for pid in procfs.pids() if str(trash).encode() in b" ".join(procfs.arguments(pid) or ())]


def test_container_with_many_files_is_removed_before_they_are_deleted(stage: Stage) -> None:
    storage = stage.server.home / "root/storage"
    disk = fsusage.filesystem(str(storage))
    if pace(disk.capacity, disk.available, disk.inodes, disk.inodes_free).wait:
        pytest.skip("needs a file system with 15 % free space, as removals wait for the deletion otherwise")
    trash, pod = storage / "trash", Pod(stage, "many-files")

    async def write(client: CriClient) -> None:
        await pod.up(client)
        written = await client.exec_sync(pod.container, ["sh", "-c", _WRITE], 300 * PATIENCE)
        assert written.exit_code == 0, written.stderr

    stage.do(write)
    assert _count(storage / "containers") >= _FILES
    begun = time.monotonic()
    stage.do(pod.down)
    print(f"the pod with {_FILES} files was stopped and removed in {time.monotonic() - begun:.2f} s")
    assert list((storage / "containers").iterdir()) == []
    assert _count(trash) > _FILES / 2, "the removal has waited for the deletion"
    wait_for(lambda: bool(_workers(trash)), 30, lambda: "no worker deletes")
    stage.server.signal(signal.SIGKILL)
    wait_for(lambda: not _workers(trash), 10, lambda: "the worker outlives its server")
    assert _count(trash) > 0
    stage.server.start()
    after = Pod(stage, "started-meanwhile")
    stage.do(after.up)
    stage.do(after.down)
    wait_for(lambda: not list(trash.iterdir()), 240, lambda: f"{_count(trash)} files are left")

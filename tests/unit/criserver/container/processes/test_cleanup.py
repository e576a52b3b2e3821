"""Leftovers of a container are removed without delaying other containers."""

import asyncio
import os
import threading
import time
from pathlib import Path
from typing import cast

from pykubelet.criserver.container.container_interfaces import Directories
from pykubelet.criserver.container.processes.cleanup import Cleanup
from pykubelet.criserver.container.state.container_state import Container
from pykubelet.criserver.runtimes import ContainerRuntime, Task
from pykubelet.criserver.types import ContainerID, ContainerRecord, SandboxID
from pykubelet.linux.cgroups import CgroupDriver
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.wait import until

_HUNG = 3 * (os.cpu_count() or 1) + 8
"""More than a pool that all share would have threads."""


class HungCgroups:
    """Cgroups whose removal hangs in the kernel until they are released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.hanging = 0
        self.deleted: list[str] = []

    def delete(self, path: str) -> None:
        if path.startswith("/hung"):
            self.hanging += 1
            self.released.wait()
        self.deleted.append(path)


class NoRuntime:
    systemd = False

    async def delete(self, task: Task, *, emptied: bool) -> None:
        assert emptied


def _container(name: str) -> Container:
    record = ContainerRecord(ContainerID(name), name, SandboxID("s1"), b"", 1, "", "", "", f"/{name}", "")
    return Container(record, monotonic=time.monotonic)


async def test_removals_of_cgroups_that_hang_delay_no_other_container(tmp_path: Path) -> None:
    directories = Directories(
        bundles=tmp_path / "bundles",
        exits=tmp_path / "exits",
        seccomp=tmp_path,
        root_filesystems=tmp_path,
        checkpoints=tmp_path / "checkpoints",
        restores=tmp_path / "restores",
        mapped=tmp_path / "mapped",
    )
    cgroups = HungCgroups()
    cleanup = Cleanup(directories=directories, cgroups=cast(CgroupDriver, cgroups))
    runtime = cast(ContainerRuntime, NoRuntime())
    async with asyncio.TaskGroup() as tasks:
        for number in range(_HUNG):
            tasks.create_task(cleanup.delete(_container(f"hung-{number}"), runtime), name=f"hung-{number}")
        try:
            await until(lambda: cgroups.hanging == _HUNG, 10)
            async with asyncio.timeout(5 * PATIENCE):
                await cleanup.delete(_container("other"), runtime)
            assert cgroups.deleted == ["/other"]
        finally:
            cgroups.released.set()

"""The warm-up of the cgroup migration lock."""

import asyncio
import os
from pathlib import Path

import pytest

from pykubelet.linux.cgroups import Layout, MigrationWarmUp, Mode
from pykubelet.testing.wait import until


async def _expected(migration: MigrationWarmUp, file: Path) -> str:
    migration.start()
    await until(lambda: not migration._busy)
    return file.read_text()


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("0::/a/b\n", "unified/a/b"),
        ("0::/\n", "unified"),
        ("4:cpu,cpuacct:/c\n1:name=systemd:/s\n0::/u\n", "unified/u"),
        ("4:cpu,cpuacct:/c\n1:name=systemd:/s\n", "systemd/s"),
        ("4:cpu,cpuacct:/c\n3:misc:/m\n", "cpu/c"),
    ],
)
async def test_it_goes_to_where_it_is(tmp_path: Path, text: str, file: str) -> None:
    controllers = {"cpu": tmp_path / "cpu", "cpuacct": tmp_path / "cpu", "name=systemd": tmp_path / "systemd"}
    layout = Layout(Mode.HYBRID, tmp_path / "unified", controllers)
    own, procs = tmp_path / "own", tmp_path / file / "cgroup.procs"
    own.write_text(text)
    procs.parent.mkdir(parents=True)
    procs.touch()
    assert await _expected(MigrationWarmUp(layout, own), procs) == str(os.getpid())


async def test_warm_up_runs_once_at_a_time_and_again_later(tmp_path: Path) -> None:
    own, procs = tmp_path / "own", tmp_path / "cgroup.procs"
    own.write_text("0::/\n")
    os.mkfifo(procs)  # blocks the writer until there is a reader
    migration = MigrationWarmUp(Layout(Mode.V2, tmp_path), own)
    for _ in range(3):
        migration.start()
        migration.start()
        assert await asyncio.to_thread(procs.read_text) == str(os.getpid())
        await until(lambda: not migration._busy)


async def test_warm_up_without_the_cgroup_creates_nothing(tmp_path: Path) -> None:
    own = tmp_path / "own"
    migration = MigrationWarmUp(Layout(Mode.V2, tmp_path / "absent"), own)
    migration.start()  # no file that tells the cgroup
    await until(lambda: not migration._busy)
    own.write_text("0::/gone\n")
    migration.start()  # no such cgroup
    await until(lambda: not migration._busy)
    assert not (tmp_path / "absent").exists()


async def test_it_goes_nowhere_else(tmp_path: Path) -> None:
    """Moved out of the part of the tree that we see, a process is told a path that means another cgroup here."""
    own, other = tmp_path / "own", tmp_path / "cpu" / "cgroup.procs"
    own.write_text("0::/../cpu\n")
    (tmp_path / "unified").mkdir()
    other.parent.mkdir()
    other.touch()
    assert await _expected(MigrationWarmUp(Layout(Mode.V2, tmp_path / "unified"), own), other) == ""

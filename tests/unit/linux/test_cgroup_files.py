"""Cgroups that a container may make in those that it can write to: any number, of any depth, with many processes."""

import os
import signal
import subprocess
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest

from pykubelet.base.errors import Transient
from pykubelet.linux.cgroups.files import CgroupFiles
from pykubelet.linux.cgroups.v2 import CgroupV2
from pykubelet.linux.filesystems.removal import remove_tree


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def _chain(top: Path, name: str, length: int) -> None:
    """Make directories, each in the one before; the deeper ones have no path that the kernel takes."""
    top.mkdir(exist_ok=True)
    at = os.open(top, os.O_RDONLY)
    for _ in range(length):
        os.mkdir(name, dir_fd=at)
        above, at = at, os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(above)
    os.close(at)


@pytest.mark.parametrize(("name", "length"), [("d" * 255, 40), ("a", 600)], ids=["long-paths", "recursion"])
def test_cgroups_of_any_depth_are_listed_and_removed(tmp_path: Path, name: str, length: int) -> None:
    top = tmp_path / "pod"
    _chain(top, name, length)
    _chain(top, "other", 2)
    try:
        descriptors = open_descriptors()
        found = [path.is_dir() for path in CgroupFiles().tree(top)]
        assert found == [True] * (1 + length + 2)
        CgroupFiles().delete_trees((top,))
        assert not top.exists()
        assert open_descriptors() <= descriptors
    finally:
        remove_tree(top)  # pytest cannot


def test_cgroup_without_children_is_removed_without_a_look_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container has one in each of a dozen hierarchies."""

    def look(files: CgroupFiles, path: Path) -> list[str]:
        raise AssertionError(f"{path} is listed")

    (tmp_path / "leaf").mkdir()
    monkeypatch.setattr(CgroupFiles, "subdirectories", look)
    CgroupFiles().delete_trees([tmp_path / "leaf", tmp_path / "missing"])
    assert list(tmp_path.iterdir()) == []


def test_cgroup_that_does_not_exist_has_no_tree(tmp_path: Path) -> None:
    assert list(CgroupFiles().tree(tmp_path / "missing")) == []
    CgroupFiles().delete_trees((tmp_path / "missing",))


class _CountingFiles(CgroupFiles):
    """Counts how often processes are listed."""

    def __init__(self) -> None:
        self.listed = 0

    def read(self, path: Path) -> str:
        self.listed += path.name == "cgroup.procs"
        return super().read(path)


def test_cgroup_is_not_read_for_each_of_its_processes(tmp_path: Path) -> None:
    """20,000 processes with 12 hierarchies of version 1 took minutes."""
    files = _CountingFiles()
    with ExitStack() as stack:
        processes = [stack.enter_context(subprocess.Popen(["sleep", "60"])) for _ in range(4)]
        for process in processes:
            stack.callback(process.kill)
        (tmp_path / "cgroup.procs").write_text("".join(f"{process.pid}\n" for process in processes))
        files.kill((tmp_path,))
        assert [process.wait(10) for process in processes] == [-signal.SIGKILL] * 4
    assert files.listed == 2


def test_processes_of_very_many_cgroups_are_those_of_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The metrics of the whole node wait for those of a container with 20,000 cgroups."""
    monkeypatch.setattr("pykubelet.linux.cgroups.files._LOOKED_AT", 10)
    (tmp_path / "wide").mkdir()
    (tmp_path / "cgroup.procs").write_text("17\n")
    for number in range(30):
        (tmp_path / "wide" / str(number)).mkdir()
        (tmp_path / "wide" / str(number) / "cgroup.procs").write_text(f"{number + 100}\n")
    driver = CgroupV2(tmp_path.parent)
    found = driver.procs(tmp_path.name)
    assert 17 in found and len(found) == 10 - 1, "one has none"


def test_processes_of_a_cgroup_that_is_killed_fork_no_more(tmp_path: Path) -> None:
    """Otherwise a fork bomb makes processes as fast as they are killed."""
    limit = tmp_path / "pids.max"
    limit.write_text("max")
    (tmp_path / "cgroup.procs").write_text("")
    without = tmp_path / "of another hierarchy"
    without.mkdir()
    CgroupFiles().kill((tmp_path, without))
    assert limit.read_text().startswith("0")
    assert not (without / "pids.max").exists()


def test_cgroup_of_this_process_is_not_kept_from_forking(tmp_path: Path) -> None:
    limit = tmp_path / "pids.max"
    limit.write_text("max")
    (tmp_path / "cgroup.procs").write_text(f"{os.getpid()}\n")
    CgroupFiles().kill((tmp_path,))
    assert limit.read_text() == "max"


def test_error_names_few_of_very_many_processes_that_do_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = _ImmortalCgroups()
    monkeypatch.setattr("pykubelet.linux.cgroups.files._DELETE_DEADLINE", 0.0)
    (tmp_path / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in range(1, 20_001)))
    with pytest.raises(Transient, match=r"\(20000\): 1, 2, 3, 4, 5, 6, 7, 8, …$"):
        files.delete_trees((tmp_path,))


class _ImmortalCgroups(CgroupFiles):
    """Cgroups that are never empty."""

    def remove(self, path: Path) -> None:
        raise Transient(f"cannot remove cgroup {path}: busy")

    def kill(self, roots: Iterable[Path]) -> None:
        pass

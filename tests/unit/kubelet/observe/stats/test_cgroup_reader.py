"""Figures that are read of a container's cgroup, also where they are in two cgroups."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from pykubelet.kubelet.observe.stats import cgroup_reader
from pykubelet.kubelet.observe.stats.cgroup_reader import CgroupReader
from pykubelet.linux import procfs
from pykubelet.linux.cgroups import Layout, Mode
from pykubelet.linux.filesystems.removal import remove_tree


def _write(directory: Path, files: dict[str, str]) -> None:
    directory.mkdir(parents=True)
    for name, text in files.items():
        (directory / name).write_text(text)


def test_limits_of_a_container_that_is_below_its_scope(tmp_path: Path) -> None:
    """crun and systemd: the scope has usage, and neither limits nor throttling."""
    scope = tmp_path / "pods.slice" / "cri-1.scope"
    usage = {"memory.current": "4096\n", "memory.stat": "anon 1\n", "pids.current": "2\n"}
    _write(
        scope,
        {
            **usage,
            "cgroup.procs": "",
            "cpu.stat": "usage_usec 9\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
            "cpu.max": "max 100000\n",
            "memory.max": "max\n",
            "pids.max": "max\n",
        },
    )
    _write(
        scope / "container",
        {
            **usage,
            "cgroup.procs": "1\n",
            "cpu.stat": "usage_usec 8\nnr_periods 5\nnr_throttled 2\nthrottled_usec 7\n",
            "cpu.max": "20000 100000\n",
            "memory.max": "65536\n",
            "pids.max": "100\n",
        },
    )
    reader = CgroupReader(Layout(Mode.V2, tmp_path))
    found = reader.read("/pods.slice/cri-1.scope", 1.0, full=True)
    assert found is not None and found.cpu is not None and found.memory is not None and found.processes is not None
    assert (found.cpu.quota_us, found.cpu.period_us) == (20_000, 100_000)
    assert (found.cpu.periods, found.cpu.throttled_periods, found.cpu.throttled_ns) == (5, 2, 7000)
    assert (found.memory.usage, found.memory.limit) == (4096, 65536)
    assert (found.processes.processes, found.processes.threads_max) == (1, 100)
    assert found.path == "/pods.slice/cri-1.scope"
    # Rates are made from both kinds of reading.
    assert found.cpu.total_ns == reader.cpu_ns("/pods.slice/cri-1.scope") == 8000


def test_processes_in_cgroups_that_are_too_deep_for_recursion_are_found(tmp_path: Path) -> None:
    """A container that may write to its cgroups makes them as deep as it likes."""
    deepest = tmp_path / "pod"
    deepest.mkdir()
    for _ in range(600):
        deepest /= "a"
        deepest.mkdir()
    (deepest / "cgroup.procs").write_text("7\n")
    try:
        assert list(CgroupReader(Layout(Mode.V2, tmp_path)).pids("/pod")) == [7]
    finally:
        remove_tree(tmp_path / "pod")  # pytest cannot


def test_of_very_many_cgroups_of_a_container_not_all_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup_reader, "_MOST_CGROUPS", 3)
    for number in range(9):
        _write(tmp_path / "pod" / str(number), {"cgroup.procs": f"{number}\n"})
    assert len(list(CgroupReader(Layout(Mode.V2, tmp_path)).pids("/pod"))) == 2


def test_of_very_many_open_files_not_all_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def descriptors(pid: int) -> Iterator[tuple[int, str]]:
        return ((number, f"socket:[{number}]") for number in count())

    monkeypatch.setattr(cgroup_reader, "_MOST_DESCRIPTORS", 100)
    monkeypatch.setattr(procfs, "descriptors", descriptors)
    _write(tmp_path / "pod", {"cgroup.procs": "1\n2\n"})
    found = CgroupReader(Layout(Mode.V2, tmp_path)).read("/pod", 1.0, full=True)
    assert found is not None and found.processes is not None
    assert (found.processes.processes, found.processes.file_descriptors, found.processes.sockets) == (2, 100, 100)

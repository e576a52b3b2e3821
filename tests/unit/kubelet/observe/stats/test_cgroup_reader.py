"""What is read of one cgroup, where its figures are in two."""

from pathlib import Path

from pykubelet.kubelet.observe.stats.cgroup_reader import CgroupReader
from pykubelet.linux.cgroups import Layout, Mode


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

"""Facts of the machine, from a fake root and from this one."""

import os
import subprocess
from pathlib import Path

import pytest

from pykubelet.base.errors import NotFound
from pykubelet.base.units import Bytes
from pykubelet.linux import system


def put(root: Path, path: str, text: str) -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def test_meminfo_is_read_in_bytes(tmp_path: Path) -> None:
    put(
        tmp_path,
        "proc/meminfo",
        "MemTotal:  100 kB\nMemFree: 50 kB\nMemAvailable:  70 kB\n"
        "SwapTotal: 8 kB\nSwapFree: 4 kB\nHugePages_Total: 3\n",
    )
    assert system.meminfo(tmp_path) == system.MemInfo(
        Bytes(102_400), Bytes(71_680), Bytes(51_200), Bytes(8192), Bytes(4096)
    )


def test_hugepages_are_sorted_by_size(tmp_path: Path) -> None:
    assert system.hugepages(tmp_path) == ()
    for size, count in (("1048576", 1), ("2048", 7)):
        put(tmp_path, f"sys/kernel/mm/hugepages/hugepages-{size}kB/nr_hugepages", f"{count}\n")
    assert [(pages.size, pages.total) for pages in system.hugepages(tmp_path)] == [(2 << 20, 7), (1 << 30, 1)]


def test_identity_files_are_read_or_have_defaults(tmp_path: Path) -> None:
    assert system.machine_id(tmp_path) == ""
    assert system.os_image(tmp_path) == "Linux"
    put(tmp_path, "etc/machine-id", "abc\n")
    put(tmp_path, "etc/os-release", 'NAME=x\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n')
    put(tmp_path, "proc/sys/kernel/random/boot_id", "b-1\n")
    put(tmp_path, "proc/stat", "cpu 1 2\nbtime 1700000000\n")
    put(tmp_path, "proc/sys/kernel/pid_max", "32768\n")
    put(tmp_path, "proc/sys/kernel/threads-max", "1000\n")
    put(tmp_path, "proc/loadavg", "0.1 0.2 0.3 2/345 999\n")
    assert system.machine_id(tmp_path) == "abc"
    assert system.system_uuid(tmp_path) == "abc"
    put(tmp_path, "sys/class/dmi/id/product_uuid", "u-1\n")
    assert system.system_uuid(tmp_path) == "u-1"
    assert system.os_image(tmp_path) == "Debian GNU/Linux 12 (bookworm)"
    assert system.boot_id(tmp_path) == "b-1"
    assert system.boot_time(tmp_path) == 1_700_000_000
    assert system.pid_limit(tmp_path) == 1000
    assert system.process_count(tmp_path) == 345


def test_control_file_is_looked_for_in_the_own_cgroup(tmp_path: Path) -> None:
    assert not system.own_cgroup_has("memory.swap.max", tmp_path)
    put(tmp_path, "proc/self/cgroup", "1:cpu:/other\n0::/user/me\n")
    assert not system.own_cgroup_has("memory.swap.max", tmp_path)
    put(tmp_path, "sys/fs/cgroup/user/memory.swap.max", "max\n")
    assert not system.own_cgroup_has("memory.swap.max", tmp_path)
    put(tmp_path, "proc/self/cgroup", "0::/\n")
    assert system.own_cgroup_has("memory.swap.max", tmp_path)
    assert not system.own_cgroup_has("hugetlb.2MB.max", tmp_path)
    put(tmp_path, "proc/self/cgroup", "0::/user/me\n")
    put(tmp_path, "sys/fs/cgroup/user/me/memory.swap.max", "max\n")
    assert system.own_cgroup_has("memory.swap.max", tmp_path)


def test_facts_of_this_machine_are_plausible() -> None:
    memory = system.meminfo()
    assert 0 < memory.available <= memory.total
    assert len(system.boot_id()) == 36
    assert system.kernel_version() == os.uname().release
    assert system.hostname() == os.uname().nodename
    assert system.architecture() not in ("x86_64", "aarch64")
    assert system.boot_time() > 1_000_000_000


def test_oom_score_is_set_until_the_process_has_ended() -> None:
    with subprocess.Popen(["/bin/sleep", "600"]) as process:
        assert system.set_oom_score_adj(process.pid, 500)
        assert Path(f"/proc/{process.pid}/oom_score_adj").read_text().strip() == "500"
        process.kill()
    with pytest.raises(NotFound):
        system.set_oom_score_adj(process.pid, 500)


def test_oom_score_not_permitted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, text: str) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "write_text", refuse)
    assert not system.set_oom_score_adj(os.getpid(), -999)

"""Facts from /proc about processes that may call themselves whatever they like."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.errors import Transient
from pykubelet.linux import procfs
from pykubelet.linux.procparse import Membership, parse_cgroups, parse_limit, parse_stat, parse_status
from pykubelet.testing.agent import wait_for

HOSTILE = rb"""
import os, sys
open("/proc/self/comm", "wb").write(b"a) Z 9 \xc3")
print("named", flush=True)
sys.stdin.read()
"""
GONE = 0x7FFF_FFF0


@contextmanager
def hostile() -> Iterator[int]:
    """A process whose name is no UTF-8 and looks like the fields that follow it."""
    argv: list[str | bytes] = [sys.executable, "-S", "-c", HOSTILE, b"caf\xc3"]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={b"MARK": b"\xff\xfe"}, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"named\n"
        yield process.pid
        process.kill()


def test_stat_of_a_process_with_a_name_that_is_no_text_is_read() -> None:
    with hostile() as pid:
        found = procfs.stat(pid)
        assert found is not None
        assert (found.pid, found.parent, found.group, found.session) == (pid, os.getpid(), pid, pid)
        assert not found.ended
        assert found.started >= procfs.stat(os.getpid()).started  # type: ignore[union-attr]
        assert found.resident_pages > 0
        assert (procfs.status(pid) or {})["PPid"] == str(os.getpid())


def test_arguments_and_environment_are_bytes() -> None:
    with hostile() as pid:
        arguments = procfs.arguments(pid)
        assert arguments is not None
        assert arguments[-1] == b"caf\xc3"
        assert procfs.environment(pid) == (b"MARK=\xff\xfe",)


def test_facts_of_our_own_process() -> None:
    pid = os.getpid()
    assert pid in procfs.pids()
    assert procfs.program(pid) == procfs.Identity(*_identity("/proc/self/exe"))
    assert procfs.program_path(pid) == os.path.realpath("/proc/self/exe")
    assert procfs.namespace("self", "pid") == procfs.Identity(*_identity("/proc/self/ns/pid"))
    assert (procfs.threads(pid) or 0) >= 1
    assert (procfs.limit(pid, "Max open files") or "").isdecimal()
    assert "lo" in {device.name for device in procfs.network_devices("self")}
    assert procfs.machine("meminfo").startswith("MemTotal")
    assert procfs.machine("no-such-file") == ""
    fd = os.open("/proc", os.O_PATH)
    try:
        assert dict(procfs.descriptors(pid))[fd] == "/proc"
        assert procfs.mount_id(fd) is not None
    finally:
        os.close(fd)
    assert procfs.mount_id(fd) is None


def test_children_of_any_thread_are_found() -> None:
    script = (
        "import subprocess, sys, threading\n"
        "def work(): print(subprocess.Popen(['sleep', '60']).pid, flush=True); sys.stdin.read()\n"
        "threading.Thread(target=work).start()\n"
    )
    argv = [sys.executable, "-c", script]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        assert procfs.children(process.pid) == (child,)
        os.killpg(process.pid, signal.SIGKILL)


def test_a_process_that_has_gone_is_none() -> None:
    answers = (procfs.stat, procfs.status, procfs.arguments, procfs.environment, procfs.cgroups, procfs.program)
    for answer in answers:
        assert answer(GONE) is None
    for more in (procfs.program_path, procfs.threads, lambda pid: procfs.namespace(pid, "pid")):
        assert more(GONE) is None
    assert procfs.children(GONE) == ()
    assert list(procfs.descriptors(GONE)) == []
    assert procfs.limit(GONE, "Max open files") is None
    assert procfs.network_devices(GONE) == ()


def test_our_own_lack_of_descriptors_is_not_the_end_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **more: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(Transient, match="Too many open files"):
        procfs.stat(os.getpid())


DEEP = """
import os, shutil, sys
os.chdir(sys.argv[1])
for _ in range(20):
    os.mkdir("d" * 250)
    os.chdir("d" * 250)
shutil.copy(sys.argv[2], "program")
os.set_inheritable(os.open("program", os.O_RDONLY), True)
os.execv("./program", ["program", "60"])
"""


def test_paths_that_are_too_long_for_the_kernel_are_unknown(tmp_path: Path) -> None:
    """Any user, and any container, can run a program, and open files, in directories as deep as this."""
    sleep = shutil.which("sleep")
    assert sleep is not None
    (tmp_path / "top").mkdir()
    with subprocess.Popen([sys.executable, "-S", "-c", DEEP, tmp_path / "top", sleep]) as process:
        try:
            wait_for(lambda: procfs.arguments(process.pid) == (b"program", b"60"), 10, lambda: "it has not begun")
            with pytest.raises(OSError, match="File name too long"):
                Path(f"/proc/{process.pid}/exe").readlink()
            assert procfs.program_path(process.pid) == ""
            opened = dict(procfs.descriptors(process.pid))
            assert {0, 1, 2} <= opened.keys()
            assert "" in opened.values()
        finally:
            process.kill()
            subprocess.run(["rm", "-rf", tmp_path / "top"], check=True)


def test_cgroup_whose_path_is_too_long_for_the_kernel_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux before 6.9 refuses paths of more than 4095 bytes; a container whose cgroups are writable can make one."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "read", _refuse_with(errno.ENAMETOOLONG))
        assert procfs.cgroups(os.getpid()) is None
    with monkeypatch.context() as patch:
        patch.setattr(os, "read", _refuse_with(errno.ENOMEM))
        with pytest.raises(Transient):
            procfs.cgroups(os.getpid())


def _refuse_with(number: int) -> Callable[[int, int], bytes]:
    def refuse(descriptor: int, size: int) -> bytes:
        raise OSError(number, os.strerror(number))

    return refuse


def test_an_endless_file_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procfs, "ROOT", str(tmp_path))
    (tmp_path / "7").mkdir()
    with (tmp_path / "7" / "environ").open("wb") as file:
        file.truncate(1 << 40)
    found = procfs.environment(7)
    assert found is not None
    assert sum(map(len, found)) < 1 << 20


@given(st.binary())
def test_parsers_take_any_bytes(data: bytes) -> None:
    parse_cgroups(data)
    parse_status(data)
    parse_limit(data, "Max open files")


@given(st.binary(max_size=15))
def test_stat_is_the_same_whatever_the_name(name: bytes) -> None:
    rest = b") S 5 6 7" + b" 0" * 3 + b" 8 0 9 0" + b" 11 12" + b" 0" * 6 + b" 21 0 22 0 0\n"
    found = parse_stat(9, b"9 (" + name + rest)
    assert found is not None
    assert (found.state, found.parent, found.group, found.session) == ("S", 5, 6, 7)
    assert (found.minor_faults, found.major_faults) == (8, 9)
    assert (found.user_ticks, found.system_ticks, found.started, found.resident_pages) == (11, 12, 21, 22)


def test_cgroups_keep_bytes_that_are_no_text() -> None:
    found = parse_cgroups(b"5:cpu,cpuacct:/a:b\n1:name=systemd:/\xff\n0::/c\n")
    assert found == (
        Membership(("cpu", "cpuacct"), "/a:b"),
        Membership(("name=systemd",), "/\udcff"),
        Membership((), "/c"),
    )
    assert os.fsencode(found[1].path) == b"/\xff"


def _identity(path: str) -> tuple[int, int]:
    found = Path(path).stat()
    return found.st_dev, found.st_ino

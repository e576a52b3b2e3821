"""Signals reach the command, and no process that reuses its PID."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pykubelet.criserver.oci.command import Command, in_container, parent_of
from pykubelet.criserver.processes import reference
from pykubelet.criserver.types import ProcessRef
from pykubelet.linux import procfs
from pykubelet.linux.procfs import Membership
from tests.unit.criserver.streaming.rig import strange_process

_LAST = Path("/proc/sys/kernel/ns_last_pid")


@contextmanager
def _sleeping_as(number: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process with that PID, which must be free."""
    if not os.access(_LAST, os.W_OK):
        pytest.skip(f"{_LAST} cannot be written: root, and a kernel with CONFIG_CHECKPOINT_RESTORE, are needed")
    for _ in range(200):
        _LAST.write_text(str(number - 1))
        with strange_process() as process:
            if process.pid == number:
                yield process
                return
    pytest.fail(f"the number {number} was not given to a new process in 200 tries")


def _let_a_tick_pass(before: ProcessRef | None) -> None:
    """Wait, since processes are distinguished by start tick; PIDs are not reused as fast as here."""
    assert before is not None
    for _ in range(1000):
        with strange_process() as process:
            now = reference(process.pid)
        if now is not None and now.started > before.started:
            return
    pytest.fail("the kernel's clock stands still")


def _noted(directory: Path, number: int, runtime: int | None) -> Command:
    (directory / "pid").write_text(str(number))
    made = Command(directory / "pid", "0" * 64)
    made.runtime = runtime
    return made


def test_running_command_is_killed(tmp_path: Path) -> None:
    with strange_process() as process:
        command = _noted(tmp_path, process.pid, os.getpid())
        assert command.noted()
        command.kill()
        assert process.wait(10) == -9
    assert command.open() is None


def test_command_whose_pid_was_reused_spares_the_other_process(tmp_path: Path) -> None:
    with strange_process() as other:
        command = _noted(tmp_path, other.pid, None)
        assert command.open() is None
        command.kill()
        assert other.poll() is None


@pytest.mark.parametrize("seen", [True, False])
def test_command_whose_pid_was_reused_after_its_end_spares_the_new_process(tmp_path: Path, seen: bool) -> None:
    with strange_process() as process:
        command = _noted(tmp_path, process.pid, os.getpid() if seen else None)
        if seen:
            handle = command.open()
            assert handle is not None
            handle.close()
        began = reference(process.pid)
    _let_a_tick_pass(began)
    with _sleeping_as(process.pid) as other:
        command.kill()
        assert command.open() is None
        assert other.poll() is None


def test_command_is_recognized_by_the_cgroup_of_its_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with strange_process() as process:
        memberships = {process.pid: (Membership((), f"/pods/{'0' * 64}/below"),)}
        monkeypatch.setattr(procfs, "cgroups", memberships.get)
        assert not in_container(process.pid, "1" * 64)
        _noted(tmp_path, process.pid, None).kill()
        assert process.wait(10) == -9


@pytest.mark.parametrize("path", ["/pods/c1", "/pods/c1/below", "/a.slice/cri-pykubelet-c1.scope/container"])
def test_cgroup_of_a_container_has_its_id_as_name(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(procfs, "cgroups", {7: (Membership((), path),)}.get)
    assert in_container(7, "c1")


@pytest.mark.parametrize("path", ["/", "/session-ac1b", "/pods/c1x/below", "/a.slice/xc1.scope"])
def test_cgroup_whose_name_contains_an_id_is_not_of_that_container(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(procfs, "cgroups", {7: (Membership((), path),)}.get)
    assert not in_container(7, "c1")


@pytest.mark.parametrize("noted", ["", "x", "0", "-1", "1"])
def test_invalid_pid_file_kills_nothing(tmp_path: Path, noted: str) -> None:
    (tmp_path / "pid").write_text(noted)
    command = Command(tmp_path / "pid", "0" * 64)
    assert command.open() is None
    command.kill()


def test_parent_of_no_process_is_none() -> None:
    assert parent_of(os.getpid()) == os.getppid()
    assert parent_of(2**22 + 1) is None

"""Programs that a killed server left running: waiting, killing, and distinguishing them."""

import asyncio
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pykubelet.base.clock import SystemClock
from pykubelet.base.concurrency import blocking
from pykubelet.criserver import processes, programs
from pykubelet.criserver.programs import Marks, new_marks, wait_for_former_programs
from pykubelet.linux import procfs
from pykubelet.linux.procfs import Membership
from pykubelet.testing.agent import wait_for
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.wait import until


@contextmanager
def _program(mark: str, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command or ("sleep", "60"), env={**os.environ, "PYKUBELET_CRISERVER": mark}) as process:
        try:
            # Popen returns before the kernel has put the environment into the new program's memory.
            wait_for(
                lambda: bool(procfs.environment(process.pid)) or process.poll() is not None,
                30,
                lambda: "no environment",
            )
            yield process
        finally:
            process.kill()


@pytest.fixture
def marks(tmp_path: Path) -> Marks:
    """The marks of a server that follows another one."""
    new_marks(tmp_path, tmp_path / "tmp")
    return new_marks(tmp_path, tmp_path / "tmp")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_PATIENCE", 0.3)
    monkeypatch.setattr(programs, "_DYING", 0.3)


def test_marks_are_random_and_private_and_known_to_the_next_server(tmp_path: Path) -> None:
    first = new_marks(tmp_path, tmp_path / "tmp")
    assert (tmp_path / "marks").stat().st_mode & 0o777 == 0o600
    second = new_marks(tmp_path, tmp_path / "tmp")
    assert first.own in second.former
    assert first.own != second.own
    assert new_marks(tmp_path, tmp_path / "tmp").former[-2:] == (first.own, second.own)


async def test_marks_of_a_server_that_was_waited_for_are_forgotten(tmp_path: Path, marks: Marks) -> None:
    await wait_for_former_programs(tmp_path, marks, SystemClock())
    assert new_marks(tmp_path, tmp_path / "tmp").former == (marks.own,)


@pytest.mark.parametrize("kind", ["directory", "fifo", "huge", "bytes", "endless"])
def test_marks_are_written_whatever_is_in_their_place(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "marks"
    match kind:
        case "directory":
            (path / "below").mkdir(parents=True)
        case "fifo":
            os.mkfifo(path)
        case "huge":
            with path.open("wb") as file:
                file.truncate(1 << 40)
        case "bytes":
            path.write_bytes(b"\xff\n\n\xfe")
        case _:
            path.symlink_to("/dev/zero")
    assert new_marks(tmp_path, tmp_path / "tmp").own


async def test_wait_waits_for_a_program_of_the_last_server(tmp_path: Path, marks: Marks) -> None:
    with _program(marks.former[-1], "sleep", "0.3") as process:
        await wait_for_former_programs(tmp_path, marks, SystemClock())
        assert process.wait(5) == 0, "it was killed"


@pytest.mark.usefixtures("impatient")
async def test_wait_kills_a_program_that_hangs(tmp_path: Path, marks: Marks) -> None:
    with _program(marks.former[-1]) as process:
        await wait_for_former_programs(tmp_path, marks, SystemClock())
        assert process.wait(30) == -signal.SIGKILL


async def test_wait_kills_a_program_although_a_scan_takes_all_of_its_time(tmp_path: Path, marks: Marks) -> None:
    class SlowMachine(SystemClock):
        readings = 0

        def monotonic(self) -> float:
            self.readings += 1
            return 10.0 * self.readings

    with _program(marks.former[-1]) as process:
        await wait_for_former_programs(tmp_path, marks, SlowMachine())
        assert process.wait(30) == -signal.SIGKILL


@pytest.mark.usefixtures("impatient")
async def test_wait_kills_what_a_scan_has_found_that_does_not_end(
    tmp_path: Path, marks: Marks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "_LOOK", 1.0 * PATIENCE)  # enough to find the program on a busy machine
    go_on = threading.Event()
    of_other_tests = len(blocking.hung())
    with _program(marks.former[-1]) as process:

        def pids() -> Iterator[int]:
            yield process.pid
            go_on.wait(30)

        monkeypatch.setattr(procfs, "pids", pids)
        try:
            await wait_for_former_programs(tmp_path, marks, SystemClock())
            assert process.wait(30) == -signal.SIGKILL
            assert marks.former[-1] in new_marks(tmp_path, tmp_path / "tmp").former, "the next server looks again"
        finally:
            go_on.set()
        await until(lambda: len(blocking.hung()) <= of_other_tests)


@pytest.mark.usefixtures("impatient")
async def test_wait_ends_although_programs_come_again_and_again(tmp_path: Path, marks: Marks) -> None:
    flag = tmp_path / "flag"
    flag.touch()
    again = 'while test -e "$0"; do PYKUBELET_CRISERVER="$1" sleep 3 & sleep 0.05; done; wait'
    with _program("another", "sh", "-c", again, str(flag), marks.former[-1]) as process:
        begun = time.monotonic()
        await wait_for_former_programs(tmp_path, marks, SystemClock())
        assert time.monotonic() - begun < 5
        assert process.poll() is None
        flag.unlink()
        process.wait(30)


@pytest.mark.usefixtures("impatient")
async def test_wait_ends_although_a_program_cannot_be_killed(
    tmp_path: Path, marks: Marks, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A process in the kernel, such as on a dead file server, dies of no signal."""
    monkeypatch.setattr(programs, "_kill", lambda _: None)
    with _program(marks.former[-1]) as process:
        async with asyncio.timeout(10):
            await wait_for_former_programs(tmp_path, marks, SystemClock())
        assert process.poll() is None
        assert [process.pid] in [record.__dict__.get("pids") for record in caplog.records]


@pytest.mark.usefixtures("impatient")
async def test_wait_leaves_a_container_that_has_the_mark_alone(
    tmp_path: Path, marks: Marks, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _program(marks.former[-1]) as process:
        cgroups = procfs.cgroups
        inside = (Membership((), f"/kubepods/{'a' * 64}"),)
        monkeypatch.setattr(procfs, "cgroups", lambda pid: inside if pid == process.pid else cgroups(pid))
        await wait_for_former_programs(tmp_path, marks, SystemClock())
        assert process.poll() is None


def test_process_is_of_the_machine_unless_something_that_it_cannot_choose_differs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with _program("mark") as process:
        assert processes.is_of_machine(process.pid)
        for name, changed in {
            "status": {"Uid": "1 1 1 1"},
            "namespace": procfs.Identity(0, 0),
            "cgroups": (Membership(("pids",), f"/system.slice/docker-{'0' * 64}.scope/x"),),
        }.items():
            real = getattr(procfs, name)
            with monkeypatch.context() as patch:
                patch.setattr(
                    procfs,
                    name,
                    lambda pid, *more, real=real, changed=changed: changed if pid == process.pid else real(pid, *more),
                )
                assert not processes.is_of_machine(process.pid), name
        process.kill()
        process.wait()
        assert not processes.is_of_machine(process.pid)


def test_process_of_unknown_cgroup_is_not_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with _program("mark") as process:
        real = procfs.cgroups
        monkeypatch.setattr(procfs, "cgroups", lambda pid: None if pid == process.pid else real(pid))
        assert not processes.is_of_machine(process.pid)


def test_process_in_another_namespace_is_recognized_without_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers may have tens of thousands of processes, and a scan has a few seconds for all."""

    def refuse(pid: int | str) -> None:
        raise AssertionError(f"a file of process {pid} was read")

    with _program("mark") as process:
        real = procfs.namespace
        elsewhere = procfs.Identity(0, 0)
        monkeypatch.setattr(procfs, "namespace", lambda pid, kind: elsewhere if pid == process.pid else real(pid, kind))
        monkeypatch.setattr(procfs, "status", refuse)
        monkeypatch.setattr(procfs, "cgroups", refuse)
        assert not processes.is_of_machine(process.pid)


def test_process_in_the_container_that_we_are_in_is_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = f"/docker/{'b' * 64}"
    with _program("mark") as process:
        inside = {"self": ours, process.pid: f"{ours}/below"}
        monkeypatch.setattr(procfs, "cgroups", lambda pid: (Membership((), inside[pid]),))
        assert processes.is_of_machine(process.pid)
        inside[process.pid] = f"{ours}/kubepods/{'c' * 64}"
        assert not processes.is_of_machine(process.pid)

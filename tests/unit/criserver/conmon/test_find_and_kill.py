"""Processes identified by PID and start time."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from pykubelet.base.errors import Transient
from pykubelet.criserver.conmon import find_and_kill as module
from pykubelet.criserver.conmon.find_and_kill import (
    end_commands,
    kill_group,
    monitors,
    noted_monitor,
    noted_number,
    retire_commands,
)
from pykubelet.criserver.processes import is_alive, open_process, reference
from pykubelet.criserver.types import ProcessRef
from pykubelet.linux import procfs
from pykubelet.linux.pidfd import PidFd
from pykubelet.linux.procfs import Membership
from pykubelet.testing.agent import wait_for


def test_process_is_distinguished_from_another_with_its_pid() -> None:
    argv = ["sleep", "60"]
    with subprocess.Popen(argv) as process:
        _wait_for_arguments(process.pid, argv)
        found = reference(process.pid)
        assert found is not None
        assert is_alive(found)
        assert found.boot
        assert is_alive(ProcessRef(found.pid, found.started)), "an older server noted no boot"
        assert not is_alive(ProcessRef(found.pid, found.started, "another"))
        assert not is_alive(ProcessRef(found.pid, found.started + 1))
        process.kill()
        process.wait()
        assert not is_alive(found)
        assert open_process(found) is None
    assert reference(process.pid) is None
    assert not is_alive(None)


def test_exec_commands_without_a_client_are_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "60"]) as command, subprocess.Popen(["sleep", "60"]) as other:
        inside = (Membership((), "/pods/c1"),)
        monkeypatch.setattr(procfs, "cgroups", {command.pid: inside, other.pid: inside}.get)
        _note(tmp_path / "exec-c2-a", command.pid)
        (tmp_path / "exec-c1-b").mkdir()
        _note(tmp_path / "call-c", other.pid)
        end_commands(tmp_path, lambda: False)
        assert command.poll() is None, "its PID is that of a process of another container by now"
        _note(tmp_path / "exec-c1-a", command.pid)
        end_commands(tmp_path, lambda: False)
        assert command.wait(10) == -signal.SIGKILL
        assert other.poll() is None
        end_commands(tmp_path, lambda: False)
        other.kill()


def test_commands_of_killed_servers_are_killed_and_their_files_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "tmp"
    with subprocess.Popen(["sleep", "60"]) as command:
        monkeypatch.setattr(procfs, "cgroups", {command.pid: (Membership((), "/pods/c1"),)}.get)
        scratch.mkdir()
        _note(scratch / "exec-c1-a", command.pid)
        (tmp_path / "tmp.old-1").mkdir()
        found = retire_commands(scratch, lambda: 0.0, 3.0)
        assert command.wait(10) == -signal.SIGKILL
    assert not scratch.exists()
    assert len(found) == 2 and all(directory.name.startswith("tmp.old-") for directory in found)
    assert retire_commands(scratch, lambda: 0.0, 3.0) == found


def test_command_of_a_server_that_named_no_container_is_left_alone(tmp_path: Path) -> None:
    """Its PID may be that of any process of the node by now."""
    with subprocess.Popen(["sleep", "60"]) as other:
        _note(tmp_path / "exec-ab12_9xy", other.pid)
        end_commands(tmp_path, lambda: False)
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(0.1)
        other.kill()


def _note(directory: Path, pid: int) -> None:
    directory.mkdir()
    (directory / "pid").write_text(str(pid))


def test_processes_of_an_exec_command_are_found_in_one_of_many_containers_by_one_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command may have thousands of processes, and the server does not serve until they are killed."""
    looks: list[int | str] = []

    def cgroups(pid: int | str) -> tuple[Membership, ...]:
        looks.append(pid)
        return (Membership((), "/pods/cri-containerd-c499.scope/below"),)

    with subprocess.Popen(["sleep", "60"]) as command:
        monkeypatch.setattr(procfs, "cgroups", cgroups)
        for number in range(500):
            _note(tmp_path / f"exec-c{number}-a", 0)
        _note(tmp_path / "exec-c499-b", command.pid)
        end_commands(tmp_path, lambda: False)
        assert command.wait(10) == -signal.SIGKILL
    assert 0 < len(looks) <= 16, "once in each round"


def _wait_for_arguments(pid: int, argv: Sequence[str]) -> None:
    """The kernel sets the arguments, one after the other, shortly after the program has begun."""
    given = tuple(map(os.fsencode, argv))
    wait_for(lambda: procfs.arguments(pid) == given, 10, lambda: "it has no arguments yet")


def test_all_processes_are_listed_once_for_all_exec_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod may have a hundred probes that hang, and ten thousand processes: the start took minutes."""
    listed = []

    def pids() -> list[int]:
        listed.append(1)
        return []

    monkeypatch.setattr(procfs, "pids", pids)
    for number in range(3):
        _note(tmp_path / f"exec-c1-{number}", 2**22 + number)
    end_commands(tmp_path, lambda: False)
    assert len(listed) == 1


@contextmanager
def _runs(program: Path, container: str, executable: Path) -> Iterator[ProcessRef]:
    """A process with the arguments of that container's conmon; the container is a command for a shell."""
    argv = [str(program), "-c", container]
    with subprocess.Popen(argv, executable=executable, stdin=subprocess.PIPE) as process:
        found = reference(process.pid)
        assert found is not None
        _wait_for_arguments(process.pid, argv)
        yield found
        process.kill()


@pytest.fixture
def conmon(tmp_path: Path) -> Path:
    """A shell by that name, since it takes a conmon's arguments."""
    return Path(shutil.copy("/bin/sh", tmp_path / "conmon"))


def test_monitor_is_found_by_the_program_that_it_runs(conmon: Path) -> None:
    with _runs(conmon, "read word", conmon) as monitor:
        assert monitors(str(conmon)) == {"read word": monitor}


def test_monitors_are_found_by_their_command_line(conmon: Path) -> None:
    argv, without_value = [str(conmon)], [str(conmon), "-s", "--", "-c"]
    with (
        _runs(conmon, "read one", conmon) as one,
        _runs(conmon, "read two", conmon) as two,
        subprocess.Popen(argv, stdin=subprocess.PIPE) as other,
        subprocess.Popen(without_value, stdin=subprocess.PIPE) as last,
    ):
        assert monitors(str(conmon)) == {"read one": one, "read two": two}
        assert (other.poll(), last.poll()) == (None, None)
        other.kill()
        last.kill()
    assert monitors(str(conmon)) == {}


def test_monitor_is_found_after_its_program_was_upgraded(conmon: Path) -> None:
    with _runs(conmon, "read word", conmon) as monitor:
        conmon.unlink()
        shutil.copy("/bin/sh", conmon)
        assert monitors(str(conmon)) == {"read word": monitor}
        conmon.unlink()
        assert monitors(str(conmon)) == {"read word": monitor}


def test_monitor_is_not_a_process_that_only_has_its_arguments(conmon: Path) -> None:
    with _runs(conmon, "read word", Path("/bin/sh")):
        assert monitors(str(conmon)) == {}


def test_monitor_is_not_a_process_in_a_container(conmon: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with _runs(conmon, "read word", conmon) as posing:
        cgroups = procfs.cgroups
        inside = (Membership((), f"/kubepods/{'a' * 64}"),)
        monkeypatch.setattr(procfs, "cgroups", lambda pid: inside if pid == posing.pid else cgroups(pid))
        assert monitors(str(conmon)) == {}


def test_file_of_another_program_is_not_looked_at(conmon: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be on a volume that hangs or fails (NFS, FUSE): the server would not start as long as it is run."""
    with _runs(conmon, "read word", conmon) as monitor, subprocess.Popen(["sleep", "60"]) as other:
        _refuse_program(monkeypatch, other.pid)
        assert monitors(str(conmon)) == {"read word": monitor}
        other.kill()


@pytest.mark.parametrize("where", ["container", "machine"])
def test_file_of_a_program_of_the_same_name_that_fails_is_another(
    conmon: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    (conmon.parent / "volume").mkdir()
    namesake = Path(shutil.copy("/bin/sh", conmon.parent / "volume" / "conmon"))
    with _runs(conmon, "read word", conmon) as monitor, _runs(namesake, "read other", namesake) as other:
        _refuse_program(monkeypatch, other.pid, Transient("stale file handle") if where == "machine" else None)
        if where == "container":
            namespace = procfs.namespace
            monkeypatch.setattr(
                procfs,
                "namespace",
                lambda pid, kind: procfs.Identity(0, 0) if pid == other.pid else namespace(pid, kind),
            )
        assert monitors(str(conmon)) == {"read word": monitor}


def test_monitor_is_found_by_another_path_of_its_program(conmon: Path) -> None:
    other = conmon.parent / "other"
    other.mkdir()
    (other / "link").symlink_to(conmon)
    os.link(conmon, other / "conmon")
    with _runs(conmon, "read word", conmon) as monitor:
        for name in "link", "conmon":
            assert monitors(str(other / name)) == {"read word": monitor}


def _refuse_program(monkeypatch: pytest.MonkeyPatch, refused: int, error: Exception | None = None) -> None:
    """Let the look at the file that this process runs fail."""
    program = procfs.program

    def look(pid: int) -> procfs.Identity | None:
        if pid == refused:
            raise error or AssertionError(f"the file of process {pid} was looked at")
        return program(pid)

    monkeypatch.setattr(procfs, "program", look)


def test_monitor_that_is_a_script_is_found(tmp_path: Path) -> None:
    script = tmp_path / "conmon"
    script.write_text("#!/bin/sh\nread word\n")
    script.chmod(0o755)
    with subprocess.Popen([script, "-c", "c1"], stdin=subprocess.PIPE) as process:
        try:
            wait_for(lambda: bool(monitors(str(script))), 10, lambda: "it has not become the script")
            assert monitors(str(script)) == {"c1": reference(process.pid)}
        finally:
            process.kill()


def test_noted_monitor_is_not_a_process_in_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    argv = ["sleep", "60"]
    with subprocess.Popen(argv) as process:
        _wait_for_arguments(process.pid, argv)
        (tmp_path / "conmon.pid").write_text(str(process.pid))
        assert noted_monitor(tmp_path, "60") == reference(process.pid)
        assert noted_monitor(tmp_path, "61") is None
        inside = (Membership((), f"/kubepods/{'a' * 64}"),)
        monkeypatch.setattr(procfs, "cgroups", lambda pid: inside if pid == process.pid else ())
        assert noted_monitor(tmp_path, "60") is None
        process.kill()


@pytest.mark.parametrize("kind", ["absent", "directory", "fifo", "text", "bytes", "huge", "negative"])
def test_noted_number_of_an_invalid_file_is_zero(tmp_path: Path, kind: str) -> None:
    note = tmp_path / "pid"
    match kind:
        case "directory":
            note.mkdir()
        case "fifo":
            os.mkfifo(note)
        case "huge":
            note.write_text("1" * 100)
        case "text" | "bytes":
            note.write_bytes(b"x" if kind == "text" else b"\xff")
        case "negative":
            note.write_text("-7")
    assert noted_number(note) == 0


async def test_kill_group_kills_descendants_in_other_sessions() -> None:
    script = "setsid sh -c 'sleep 98 & echo $!; exec sleep 99' & exec sleep 97"
    with _piped(["sh", "-c", script]) as (process, first_line):
        orphan = reference(int(first_line))
        with PidFd(process.pid) as monitor:
            await kill_group(monitor)
        assert not is_alive(orphan)
        assert process.wait(5) == -signal.SIGKILL


@contextmanager
def _piped(argv: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], bytes]]:
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline()


async def test_kill_group_of_a_hung_process_is_a_transient_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_DEATH", 0.05)
    monkeypatch.setattr(PidFd, "send_signal", lambda process, number: None)
    with _piped(["sh", "-c", "echo; exec sleep 60"]) as (process, _):
        with PidFd(process.pid) as monitor, pytest.raises(Transient, match="hangs in the kernel"):
            await kill_group(monitor)
        process.kill()

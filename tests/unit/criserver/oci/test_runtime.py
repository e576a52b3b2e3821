"""An OCI runtime by its command line; the runtime is a script."""

import asyncio
import json
import os
import shutil
import threading
from pathlib import Path

import pytest

from pykubelet.base.errors import Permanent
from pykubelet.base.proc import ProgramTimeout, run
from pykubelet.base.units import MIB, Bytes
from pykubelet.criserver.oci import OciRuntime
from pykubelet.criserver.types import ContainerID, ProcessRef
from pykubelet.testing.loop_files import files_in_loop
from pykubelet.testing.wait import until
from tests.unit.criserver.streaming.rig import strange_process

_EXEC = """#!/usr/bin/env python3
import json, os, subprocess, sys
given = sys.argv[1:]
process = json.load(open(given[given.index("--process") + 1]))
if process["args"] == ["/missing"]:
    log = [word for word in given if word.startswith("--log=")][0][6:]
    open(log, "w").write(json.dumps({"level": "error", "msg": "no such file"}) + "\\n")
    sys.exit(255)
if process["args"][0] == "/hangs":
    open(given[given.index("--pid-file") + 1], "w").write(process["args"][1])
    os.execvp("sleep", ["sleep", "60"])
child = subprocess.Popen(process["args"], start_new_session=True)
open(given[given.index("--pid-file") + 1], "w").write(str(child.pid))
code = child.wait()
sys.exit(code if code >= 0 else 128 - code)
"""
_CALLED = """#!/bin/sh
case "$*" in *update*)
    for each; do case $each in --log=*) log=${each#--log=};; esac; done
    echo '{"level": "error", "msg": "no such container"}' > "$log"
    exit 1;;
esac
"""
C1 = ContainerID("c1")
MOST = Bytes(MIB)


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat all processes as in the container, since the test creates no cgroup."""
    monkeypatch.setattr("pykubelet.criserver.oci.command.in_container", lambda pid, container: True)


@pytest.fixture
def runtime(tmp_path: Path) -> OciRuntime:
    program = tmp_path / "runtime"
    program.write_text(_EXEC)
    program.chmod(0o755)
    for name in ("oci", "scratch"):
        (tmp_path / name).mkdir()
    return OciRuntime(program=str(program), root=tmp_path / "oci", scratch=tmp_path / "scratch")


async def test_exec_returns_exit_code_and_output(runtime: OciRuntime) -> None:
    result = await runtime.execute(C1, {"args": ["sh", "-c", "echo out; echo err >&2; exit 5"]}, 10, MOST)
    assert (result.exit_code, result.stdout, result.stderr) == (5, b"out\n", b"err\n")


async def test_exec_keeps_no_more_output_than_it_may(runtime: OciRuntime) -> None:
    result = await runtime.execute(C1, {"args": ["sh", "-c", "echo 12345; echo abcde >&2"]}, 10, Bytes(6))
    assert (result.exit_code, result.stdout, result.stderr) == (0, b"123", b"abc")


async def test_exec_has_the_oom_score_of_its_process_from_the_start(runtime: OciRuntime) -> None:
    """crun leaves a command the score that it inherits from the server."""
    process = {"args": ["cat", "/proc/self/oom_score_adj"], "oomScoreAdj": 700}
    assert (await runtime.execute(C1, process, 10, MOST)).stdout == b"700\n"
    argv, _, directory = runtime.exec_command(C1, process, False)
    try:
        completed = await run(argv, timeout=10)
    finally:
        shutil.rmtree(directory)
    assert completed.stdout == b"700\n"


async def test_exec_with_the_oom_score_of_the_server_runs_the_runtime_itself(runtime: OciRuntime) -> None:
    """A lower score needs a capability; the runtime sets it if it can."""
    own = int(Path("/proc/self/oom_score_adj").read_text())
    for score in (own, own - 1):
        process = {"args": ["true"], "oomScoreAdj": score}
        argv, _, directory = runtime.exec_command(C1, process, False)
        shutil.rmtree(directory)
        assert argv[0] == runtime.path


async def test_exec_of_a_missing_program_is_permanent(runtime: OciRuntime) -> None:
    with pytest.raises(Permanent, match="no such file"):
        await runtime.execute(C1, {"args": ["/missing"]}, 10, MOST)


@pytest.mark.usefixtures("inside")
async def test_exec_timeout_kills_all_descendants(runtime: OciRuntime, tmp_path: Path) -> None:
    notes = tmp_path / "pids"
    script = f"sleep 98765 & echo $! > {notes}; (sleep 98765 & echo $! >> {notes}); sleep 98765"
    with pytest.raises(ProgramTimeout, match=r"container c1: command .* did not end within 1 s"):
        await runtime.execute(C1, {"args": ["sh", "-c", script]}, 1, MOST)
    for pid in notes.read_text().split():
        assert not _alive(pid)
    assert list((tmp_path / "scratch").iterdir()) == []


async def test_exec_timeout_with_a_reused_pid_spares_the_other_process(
    runtime: OciRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykubelet.criserver.oci.runtime._REAP", 0.1)
    with strange_process() as other:
        with pytest.raises(ProgramTimeout):
            await runtime.execute(C1, {"args": ["/hangs", str(other.pid)]}, 1, MOST)
        assert other.poll() is None


async def test_cancelled_exec_leaves_nothing_running(runtime: OciRuntime, tmp_path: Path, inside: None) -> None:
    note = tmp_path / "pid"
    os.mkfifo(note)
    script = f"echo $$ > {note}; exec sleep 98765"
    call = asyncio.create_task(runtime.execute(C1, {"args": ["sh", "-c", script]}, 0, MOST))
    pid = await asyncio.to_thread(note.read_text)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not _alive(pid.strip())


def _alive(pid: str) -> bool:
    try:
        state: str = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def test_arguments_of_a_command_with_streams(runtime: OciRuntime) -> None:
    argv, command, directory = runtime.exec_command(C1, {"args": ["sh"]}, True)
    assert argv[-2:] == ["--tty", "c1"]
    assert not command.noted()
    (directory / "pid").write_text("1")
    assert command.noted()
    assert json.loads((directory / "process.json").read_text()) == {"args": ["sh"]}


@pytest.mark.parametrize(
    ("said", "recursive", "users"),
    [
        ('echo \'{"mountOptions": ["ro", "rro"], "linux": {"namespaces": ["user", "pid"]}}\'', True, True),
        ('echo \'{"mountOptions": ["ro"], "linux": {"namespaces": ["pid"]}}\'', False, False),
        # A runtime that knows no such command has what the first version of the spec asks for.
        ("echo unknown command features >&2; exit 1", False, True),
    ],
)
async def test_features_of_the_runtime_are_read_or_missing(
    runtime: OciRuntime, said: str, recursive: bool, users: bool
) -> None:
    Path(runtime.path).write_text(f"#!/bin/sh\n{said}\n")
    features = await runtime.features()
    assert (features.recursive_read_only, features.user_namespaces) == (recursive, users)


@pytest.mark.parametrize(
    ("program", "emptied", "calls"),
    [("runc", True, 0), ("runc", False, 1), ("crun", True, 1), ("runc-hooked", True, 1)],
)
async def test_delete_after_the_cgroup_was_removed(tmp_path: Path, program: str, emptied: bool, calls: int) -> None:
    """Plain runc need not be run for it; what another program has to do is unknown."""
    notes, state = tmp_path / "notes", tmp_path / "oci" / C1
    state.mkdir(parents=True)
    (state / "state.json").touch()
    (tmp_path / "scratch").mkdir()
    path = tmp_path / program
    path.write_text(f"#!/bin/sh\necho called >> {notes}\nrm -r {state}\n")
    path.chmod(0o755)
    runtime = OciRuntime(program=str(path), root=tmp_path / "oci", scratch=tmp_path / "scratch")
    for _ in range(2):
        await runtime.delete(C1, emptied=emptied)
    assert not state.exists()
    assert (notes.read_text().count("called") if notes.exists() else 0) == calls


async def test_files_of_exec_are_used_in_threads(runtime: OciRuntime, tmp_path: Path) -> None:
    with files_in_loop(tmp_path) as used:
        await runtime.execute(C1, {"args": ["true"]}, 0, MOST)
        with pytest.raises(Permanent, match="no such file"):
            await runtime.execute(C1, {"args": ["/missing"]}, 0, MOST)
    assert used == []
    assert list((tmp_path / "scratch").iterdir()) == []


async def test_files_of_start_and_delete_are_used_in_threads(tmp_path: Path) -> None:
    state = tmp_path / "oci" / C1
    for path in (state, tmp_path / "scratch"):
        path.mkdir(parents=True)
    program = tmp_path / "runc"
    program.write_text(_CALLED)
    program.chmod(0o755)
    runtime = OciRuntime(program=str(program), root=tmp_path / "oci", scratch=tmp_path / "scratch")
    with files_in_loop(tmp_path) as used:
        await runtime.start(C1, ProcessRef(1, 1))
        with pytest.raises(Permanent, match="runc update: no such container"):
            await runtime.update(C1, {})
        await runtime.delete(C1)
        await runtime.delete(C1, emptied=True)
        await runtime.delete(C1, emptied=True)
    assert used == []
    assert not state.exists()
    assert list((tmp_path / "scratch").iterdir()) == []


async def test_call_cancelled_while_its_directory_is_made_leaves_no_directory(
    runtime: OciRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, mkdir = threading.Event(), threading.Event(), os.mkdir

    def slow(path: str, *args: int) -> None:
        begun.set()
        go_on.wait(30)
        mkdir(path, *args)

    with monkeypatch.context() as patched:
        patched.setattr(os, "mkdir", slow)
        call = asyncio.create_task(runtime.call("delete", C1))
        await until(begun.is_set)
        call.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert list((tmp_path / "scratch").iterdir()) == []

"""A shim's runtime beside shims that are broken: one that hangs, and one whose ``delete`` fails."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from pykubelet.base.errors import NotFound, Permanent, Transient
from pykubelet.criserver.conmon import Conmon, Exit
from pykubelet.criserver.oci.runtime import Features
from pykubelet.criserver.processes import reference
from pykubelet.criserver.runtimes import Task
from pykubelet.criserver.shim import shim_runtime
from pykubelet.criserver.shim.conmon_log_writer import ShimLogs
from pykubelet.criserver.shim.shim_connections import ShimConnections
from pykubelet.criserver.shim.shim_events import ShimEvents
from pykubelet.criserver.shim.shim_files import Mark, ShimNote, TaskFiles
from pykubelet.criserver.shim.shim_program import Bootstrap, ShimProgram
from pykubelet.criserver.shim.shim_runtime import ShimParts, ShimRuntime
from pykubelet.criserver.shim.task_client import TaskClient
from pykubelet.criserver.shim.ttrpc_client import ShimGone
from pykubelet.criserver.types import ContainerID, SandboxID
from pykubelet.pb import shim_task_pb2 as api
from pykubelet.pb import ttrpc_pb2
from pykubelet.testing.wait import settle
from tests.unit.criserver.shim.fakeshim import Answer, shim_at

_SANDBOX = SandboxID("pykubelet-test-hung")
_CONTAINER = ContainerID("pykubelet-test-container")


async def _features() -> Features:
    return Features(recursive_read_only=False, user_namespaces=False)


def _runtime(directory: Path, delete: str, name: str = "containerd-shim-test-v1") -> ShimRuntime:
    program = directory / name
    program.write_text(f"#!/bin/sh\n{delete}\n")
    program.chmod(0o755)
    return ShimRuntime(
        ShimParts(
            program=ShimProgram(str(program), {}, state=directory / "state", systemd=True),
            connections=ShimConnections(directory / "tasks"),
            logs=ShimLogs(Conmon.__new__(Conmon)),
            events=ShimEvents(directory / "events"),
            oom_kills=lambda _: 0,
            features=_features,
        )
    )


@pytest.fixture
def process() -> Iterator["subprocess.Popen[bytes]"]:
    """The process of a shim: its arguments name the sandbox."""
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); import signal; signal.pause()", "-id", _SANDBOX],
        stdout=subprocess.PIPE,
    ) as made:
        assert made.stdout is not None
        made.stdout.readline()
        yield made
        made.kill()


@asynccontextmanager
async def _shim(
    directory: Path, runtime: ShimRuntime, pid: int, answers: dict[str, Answer]
) -> AsyncIterator[TaskFiles]:
    for name in (_SANDBOX, _CONTAINER):
        TaskFiles(runtime.connections.directory / name).directory.mkdir(parents=True)
        TaskFiles(runtime.connections.directory / name).mark(Mark.CREATED)
    files = TaskFiles(runtime.connections.directory / _SANDBOX)
    files.note_shim(ShimNote(Bootstrap(f"unix://{directory}/s"), reference(pid)))
    async with shim_at(directory / "s", answers):
        yield files
        runtime.connections.close()


def _task(directory: Path, name: str) -> Task:
    return Task(id=ContainerID(name), sandbox=_SANDBOX, bundle=directory / "bundle")


async def _times_out(*_: object, **__: object) -> None:
    raise Transient("Kill did not end within 60 s")


async def test_shim_that_answers_neither_sigkill_nor_anything_else_is_killed(
    tmp_path: Path, process: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = _runtime(tmp_path, "")
    monkeypatch.setattr(shim_runtime, "_ANSWERS", 0.1)
    monkeypatch.setattr(TaskClient, "kill", _times_out)
    async with _shim(tmp_path, runtime, process.pid, {"Connect": lambda _: None}):
        with pytest.raises(Transient):
            await runtime.signal(_task(tmp_path, _CONTAINER), signal.SIGTERM)
        assert process.poll() is None, "a container may take its time to end"
        await runtime.signal(_task(tmp_path, _CONTAINER), signal.SIGKILL)
        assert process.wait(20) == -signal.SIGKILL


async def test_shim_that_still_answers_is_not_killed(
    tmp_path: Path, process: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = _runtime(tmp_path, "")
    monkeypatch.setattr(TaskClient, "kill", _times_out)
    async with _shim(tmp_path, runtime, process.pid, {"Connect": lambda _: api.ConnectResponse(shim_pid=1)}):
        with pytest.raises(Transient):
            await runtime.signal(_task(tmp_path, _CONTAINER), signal.SIGKILL)
        assert process.poll() is None


@pytest.mark.parametrize("answer", [api.Nothing(), ttrpc_pb2.Status(code=5, message="process already finished")])
@pytest.mark.parametrize(
    ("name", "left", "killed"),
    [
        ("containerd-shim-runc-test-v1", False, True),
        ("containerd-shim-runc-test-v1", True, False),
        ("containerd-shim-other-v1", False, False),
    ],
)
async def test_shim_that_hides_the_end_of_a_task_is_killed_where_the_machine_shows_it(
    tmp_path: Path,
    process: "subprocess.Popen[bytes]",
    monkeypatch: pytest.MonkeyPatch,
    answer: api.Nothing | ttrpc_pb2.Status,
    name: str,
    left: bool,
    killed: bool,
) -> None:
    """It takes SIGKILL for a task, or says that it has ended, but never answers to ``Wait``."""
    runtime = _runtime(tmp_path, "", name)
    monkeypatch.setattr(shim_runtime, "in_container", lambda *_: left)
    async with _shim(tmp_path, runtime, process.pid, {"Kill": lambda _: answer}):
        with suppress(NotFound):
            await runtime.signal(_task(tmp_path, _CONTAINER), signal.SIGKILL)
        assert process.poll() is None, "it has some time"
        monkeypatch.setattr(shim_runtime, "_KILLED", 0.0)
        with suppress(NotFound):
            await runtime.signal(_task(tmp_path, _CONTAINER), signal.SIGKILL)
        assert (process.wait(20) == -signal.SIGKILL) if killed else (process.poll() is None)


async def test_shim_that_does_not_remove_a_task_whose_processes_are_gone_is_killed(
    tmp_path: Path, process: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = _runtime(tmp_path, "", "containerd-shim-runc-test-v1")
    monkeypatch.setattr(TaskClient, "state", _times_out)
    answers: dict[str, Answer] = {"Connect": lambda _: api.ConnectResponse(shim_pid=1)}
    async with _shim(tmp_path, runtime, process.pid, answers):
        await runtime.delete(_task(tmp_path, _CONTAINER), emptied=False)
        assert process.wait(20) == -signal.SIGKILL


@pytest.mark.parametrize("reported_pid", [True, False])
async def test_hung_shim_does_not_keep_its_sandbox(
    tmp_path: Path, process: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch, reported_pid: bool
) -> None:
    """Also one that hung from its start, and so has never told its PID."""
    runtime = _runtime(tmp_path, 'echo "$@" >> ../../deleted')
    monkeypatch.setattr(shim_runtime, "_ANSWERS", 0.1)
    monkeypatch.setattr(TaskClient, "state", _times_out)
    async with _shim(tmp_path, runtime, process.pid, {"Connect": lambda _: None}) as files:
        if not reported_pid:
            files.note_shim(ShimNote(Bootstrap(f"unix://{tmp_path}/s"), None))
        await runtime.delete(_task(tmp_path, _SANDBOX), emptied=False)
        assert process.wait(20) == -signal.SIGKILL
        assert f"-id {_SANDBOX} " in (tmp_path / "deleted").read_text()
        assert not files.exist()


async def test_processes_are_killed_if_the_delete_of_a_dead_shim_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process: "subprocess.Popen[bytes]"
) -> None:
    runtime = _runtime(tmp_path, "echo cannot >&2; exit 1")
    asked: list[str] = []

    def in_container(pid: int, container: str) -> bool:
        asked.append(container)
        return pid == process.pid  # its cgroup is that of the container

    monkeypatch.setattr(shim_runtime, "in_container", in_container)
    async with _shim(tmp_path, runtime, os.getpid(), {}):
        (tmp_path / "s").unlink()
        await runtime.delete(_task(tmp_path, _CONTAINER), emptied=False)
    assert process.wait(20) == -signal.SIGKILL
    assert set(asked) == {_CONTAINER}


async def test_state_that_a_killed_runc_has_left_goes_with_its_task(tmp_path: Path) -> None:
    """A ``runc create`` that its shim takes along writes its FIFO while the program's ``delete`` removes the rest."""
    state = tmp_path / "state" / "k8s.io" / _CONTAINER
    runtime = _runtime(tmp_path, f'case "$*" in *delete) mkfifo "{state}/exec.fifo"; esac', "containerd-shim-runc-v2")
    files = TaskFiles(runtime.connections.directory / _CONTAINER)
    files.directory.mkdir(parents=True)
    files.mark(Mark.CREATED)
    state.mkdir(parents=True)
    await runtime.delete(_task(tmp_path, _CONTAINER), emptied=False)
    assert not files.exist() and not state.exists()
    await runtime.delete(_task(tmp_path, _CONTAINER), emptied=False)


async def test_shim_that_does_not_accept_connections_delays_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = ShimConnections(tmp_path)
    entered, never = asyncio.Event(), asyncio.Event()
    opened: list[SandboxID] = []

    async def open_client(sandbox: SandboxID, _: Bootstrap) -> TaskClient:
        if sandbox == _SANDBOX:
            entered.set()
            await never.wait()
        opened.append(sandbox)
        return TaskClient.__new__(TaskClient)

    monkeypatch.setattr(connections, "open", open_client)
    for name in (_SANDBOX, "other"):
        files = TaskFiles(tmp_path / name)
        files.directory.mkdir()
        files.note_shim(ShimNote(Bootstrap("unix:///s"), None))
    hung = asyncio.ensure_future(connections.client(_SANDBOX))
    await entered.wait()
    async with asyncio.timeout(20):
        await connections.client(SandboxID("other"))
    assert opened == [SandboxID("other")]
    hung.cancel()
    await asyncio.gather(hung, return_exceptions=True)


def _locks() -> int:
    """Number of the locks that exist."""
    gc.collect()
    return sum(isinstance(each, asyncio.Lock) for each in gc.get_objects())


async def test_sandboxes_without_a_shim_leave_no_locks(tmp_path: Path) -> None:
    connections, before = ShimConnections(tmp_path), _locks()
    for number in range(10):
        with pytest.raises(ShimGone):
            await connections.client(SandboxID(f"s{number}"))
    assert _locks() == before


async def test_shim_is_connected_to_once_though_its_connection_is_dropped_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = ShimConnections(tmp_path)
    files = TaskFiles(tmp_path / _SANDBOX)
    files.directory.mkdir()
    files.note_shim(ShimNote(Bootstrap("unix:///s"), None))
    entered, accepted = asyncio.Event(), asyncio.Event()
    connecting, most = 0, 0

    async def open_client(sandbox: SandboxID, _: Bootstrap) -> TaskClient:
        nonlocal connecting, most
        connecting += 1
        most = max(most, connecting)
        entered.set()
        await accepted.wait()
        connecting -= 1
        return TaskClient.__new__(TaskClient)

    monkeypatch.setattr(connections, "open", open_client)
    first = asyncio.ensure_future(connections.client(_SANDBOX))
    await entered.wait()
    connections.drop(_SANDBOX)
    second = asyncio.ensure_future(connections.client(_SANDBOX))
    await settle()
    accepted.set()
    await asyncio.gather(first, second)
    assert most == 1


async def test_shim_that_refuses_to_end_is_killed_with_its_sandbox(
    tmp_path: Path, process: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shim_runtime, "_ENDS", 0.1)
    runtime = _runtime(tmp_path, "")
    answers: dict[str, Answer] = {
        "State": lambda _: api.StateResponse(status=api.STOPPED),
        "Delete": lambda _: api.DeleteResponse(),
        "Shutdown": lambda _: ttrpc_pb2.Status(code=2, message="never"),
    }
    async with _shim(tmp_path, runtime, process.pid, answers) as files:
        await runtime.delete(_task(tmp_path, _SANDBOX), emptied=False)
        assert process.wait(20) == -signal.SIGKILL
        assert not files.exist()


async def test_sandbox_that_its_shim_failed_to_create_is_removed_whatever_the_shim_says(
    tmp_path: Path, process: "subprocess.Popen[bytes]"
) -> None:
    """gVisor's shim answers so to all calls, after a creation that failed."""
    runtime = _runtime(tmp_path, f"echo $* >> {tmp_path}/deleted")
    refused = ttrpc_pb2.Status(code=9, message="container must be created")

    def ends(_: bytes) -> api.Nothing:
        process.kill()
        return api.Nothing()

    answers: dict[str, Answer] = {"State": lambda _: refused, "Delete": lambda _: refused, "Shutdown": ends}
    async with _shim(tmp_path, runtime, process.pid, answers) as files:
        await runtime.delete(_task(tmp_path, _SANDBOX), emptied=False)
        assert process.wait(20) == -signal.SIGKILL
        assert not files.exist()
    assert "delete" in (tmp_path / "deleted").read_text(), "the shim's program has removed what was there"


async def test_started_sandbox_whose_shim_refuses_is_kept_for_another_try(
    tmp_path: Path, process: "subprocess.Popen[bytes]"
) -> None:
    runtime = _runtime(tmp_path, "")
    answers: dict[str, Answer] = {"State": lambda _: ttrpc_pb2.Status(code=9, message="not now")}
    async with _shim(tmp_path, runtime, process.pid, answers) as files:
        files.mark(Mark.STARTED)
        with pytest.raises(Permanent, match="not now"):
            await runtime.delete(_task(tmp_path, _SANDBOX), emptied=False)
        assert process.poll() is None
        assert files.exist()


async def test_container_that_waits_for_its_start_is_removed_though_it_cannot_be_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gVisor: cannot signal a container in state created; its Delete then waits for the end of the output."""
    monkeypatch.setattr(shim_runtime, "_ENDS", 0.1)
    runtime = _runtime(tmp_path, f"echo $* >> {tmp_path}/deleted")

    answers: dict[str, Answer] = {
        "State": lambda _: api.StateResponse(status=api.CREATED),
        "Kill": lambda _: ttrpc_pb2.Status(code=9, message="kill timeout: cannot signal container in state created"),
        "Wait": lambda _: None,
        "Delete": lambda _: None,
    }
    async with _shim(tmp_path, runtime, os.getpid(), answers):
        async with asyncio.timeout(10):
            await runtime.delete(_task(tmp_path, _CONTAINER), emptied=False)
        assert f"-id {_CONTAINER}" in (tmp_path / "deleted").read_text(), "by the shim's program"
        assert not TaskFiles(runtime.connections.directory / _CONTAINER).exist()


def test_only_tasks_of_runc_are_created_before_their_start(tmp_path: Path) -> None:
    """containerd creates a task when it is started: no other shim needs to know how to remove one before."""
    assert _runtime(tmp_path, "", "containerd-shim-runc-v2").supports_prelaunch
    assert not _runtime(tmp_path, "", "containerd-shim-runsc-v1").supports_prelaunch


async def test_shim_whose_pid_is_unknown_ends_with_its_sandbox(
    tmp_path: Path, process: "subprocess.Popen[bytes]"
) -> None:
    runtime = _runtime(tmp_path, "")
    answers: dict[str, Answer] = {
        "State": lambda _: api.StateResponse(status=api.STOPPED),
        "Delete": lambda _: api.DeleteResponse(),
        "Shutdown": lambda _: api.Nothing(),
    }
    async with _shim(tmp_path, runtime, process.pid, answers) as files:
        files.note_shim(ShimNote(Bootstrap(f"unix://{tmp_path}/s"), None))
        await runtime.delete(_task(tmp_path, _SANDBOX), emptied=False)
        assert process.wait(20) == -signal.SIGKILL


async def test_exit_is_known_although_the_shim_cannot_delete_the_task(tmp_path: Path) -> None:
    runtime = _runtime(tmp_path, "")
    ended = api.WaitResponse(exit_status=3)
    ended.exited_at.FromNanoseconds(7)
    answers: dict[str, Answer] = {
        "Wait": lambda _: ended,
        "Delete": lambda _: ttrpc_pb2.Status(code=9, message="the task is running"),
    }
    (tmp_path / "bundle").mkdir()
    async with _shim(tmp_path, runtime, os.getpid(), answers):
        for _ in range(2):
            assert await runtime.wait(_task(tmp_path, _CONTAINER)) == Exit(3, 7, False)

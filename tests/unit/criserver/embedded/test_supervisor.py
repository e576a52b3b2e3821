"""The supervisor, with small programs instead of the server: they leave the same note and listen on the same socket."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest

from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import Permanent
from pykubelet.criserver.config import Settings
from pykubelet.criserver.embedded import (
    RuntimeSupervisor,
    ServerNote,
    SupervisorConfig,
    note_of,
    read_note,
    write_note,
)
from pykubelet.criserver.processes import is_alive
from pykubelet.criserver.types import ProcessRef
from pykubelet.testing.wait import until

INTERPRETER = sys.executable
SERVER = """
import json, os, socket, sys, time
run, settings, kept, version = sys.argv[1:5]
stat = open("/proc/self/stat").read().rpartition(")")[2].split()
process = {"pid": os.getpid(), "started": int(stat[19])}
note = {"process": process, "version": version, "settings": settings, "kept": kept == "1"}
open(run + "/new", "w").write(json.dumps(note))
os.rename(run + "/new", run + "/server.json")
with socket.socket(socket.AF_UNIX) as listener:
    path = run + "/criserver.sock"
    if os.path.exists(path):
        os.unlink(path)
    listener.bind(path)
    listener.listen()
    time.sleep(60)
"""


class Stage:
    """A run directory and the fake servers that were started in it."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.settings = Settings(root=directory / "root", run=directory / "run")
        self.settings.run.mkdir()
        self.config = SupervisorConfig(self.settings)
        self._monkeypatch = monkeypatch
        self.wanted = note_of(self.settings, ProcessRef(0, 0), True)

    def program(self, text: str) -> None:
        """Set the program that is started instead of the server."""
        directory = self.settings.run.parent / "stand-in"
        directory.mkdir(exist_ok=True)
        script = directory / "python"
        arguments = f"{self.settings.run} {self.wanted.settings} 1 {self.wanted.version}"
        script.write_text(f"#!/bin/sh\nexec {INTERPRETER} -S -c '{text}' {arguments}\n")
        script.chmod(0o755)
        self._monkeypatch.setattr(sys, "executable", str(script))

    def note(self) -> ServerNote:
        found = read_note(self.settings.run)
        assert found is not None
        return found

    def change_note(self, **changes: object) -> None:
        write_note(self.settings.run, msgspec.structs.replace(self.note(), **changes))

    def reap(self, process: ProcessRef) -> None:
        """Reap a server that its supervisor has released."""
        with suppress(ChildProcessError):
            os.waitpid(process.pid, 0)

    def end(self) -> None:
        found = read_note(self.settings.run)
        if found is not None:
            with suppress(ProcessLookupError):
                os.kill(found.process.pid, signal.SIGKILL)
            self.reap(found.process)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    made = Stage(tmp_path, monkeypatch)
    made.program(SERVER)
    yield made
    made.end()


@asynccontextmanager
async def keeping(stage: Stage) -> AsyncIterator[RuntimeSupervisor]:
    supervisor = RuntimeSupervisor(stage.config, SystemClock())
    await supervisor.start()
    task = asyncio.create_task(supervisor.run(), name="supervisor")
    try:
        yield supervisor
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        supervisor.close()


async def test_started_server_outlives_its_supervisor_and_is_adopted(stage: Stage) -> None:
    async with keeping(stage):
        first = stage.note().process
        assert os.getsid(first.pid) == first.pid
    assert is_alive(first)
    async with keeping(stage):
        assert stage.note().process == first


async def test_server_that_ends_is_restarted(stage: Stage) -> None:
    async with keeping(stage):
        first = stage.note().process
        os.kill(first.pid, signal.SIGKILL)
        await until(lambda: stage.note().process != first)
        assert is_alive(stage.note().process)
        assert not Path(f"/proc/{first.pid}").exists(), "it was not reaped"


async def test_server_of_another_version_is_replaced(stage: Stage) -> None:
    async with keeping(stage):
        first = stage.note().process
    stage.change_note(version="0.0.1")
    async with keeping(stage):
        assert stage.note().process != first
        assert not is_alive(first)
        stage.reap(first)


async def test_server_started_by_a_person_is_used(stage: Stage) -> None:
    async with keeping(stage):
        first = stage.note().process
    stage.change_note(settings="others", kept=False)
    async with keeping(stage):
        assert stage.note().process == first


async def test_last_log_line_is_in_the_error(stage: Stage) -> None:
    stage.program('import sys; sys.exit("error: conmon is not installed")')
    with pytest.raises(Permanent, match=r"ended while starting: conmon is not installed \(its log: .*criserver.log"):
        await RuntimeSupervisor(stage.config, SystemClock()).start()


@pytest.mark.parametrize("content", [b"", b"{", b'{"process": 1}', b'{"version": "\xff\xfe"}'])
def test_unreadable_note_is_ignored(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "server.json").write_bytes(content)
    assert read_note(tmp_path) is None


async def test_start_that_raises_is_retried(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example on a full disk: the agent continues, and retries."""
    tries = 0
    spawn = RuntimeSupervisor._spawn

    def fails(supervisor: RuntimeSupervisor) -> object:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise OSError(28, "No space left on device")
        return spawn(supervisor)

    async with keeping(stage):
        first = stage.note().process
        monkeypatch.setattr(RuntimeSupervisor, "_spawn", fails)
        os.kill(first.pid, signal.SIGKILL)
        await until(lambda: stage.note().process != first)
        assert tries == 3


@pytest.mark.parametrize("kind", [os.mkfifo, os.mkdir])
async def test_something_else_in_place_of_the_log_is_set_aside(stage: Stage, kind: Callable[[Path], None]) -> None:
    stage.settings.root.mkdir()
    kind(stage.config.log)
    async with asyncio.timeout(20), keeping(stage):
        assert stage.config.log.is_file()

"""Release of a process that waits at a FIFO, as the OCI runtime's start does."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pykubelet.base.errors import Permanent
from pykubelet.base.proc import spawn
from pykubelet.criserver.oci import OciRuntime
from pykubelet.criserver.oci.fifo import fifo_of, release_exec_fifo
from pykubelet.criserver.processes import reference
from pykubelet.criserver.types import ContainerID, ProcessRef

C1 = ContainerID("c1")
_ENV = {"PATH": os.environ["PATH"]}


@contextmanager
def _null() -> Iterator[int]:
    fd = os.open(os.devnull, os.O_RDWR)
    try:
        yield fd
    finally:
        os.close(fd)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    directory = tmp_path / "oci" / C1
    directory.mkdir(parents=True)
    os.mkfifo(directory / "exec.fifo")
    (directory / "state.json").touch()
    return directory


async def _first(script: str, state: Path) -> "tuple[asyncio.Task[int], ProcessRef]":
    """The first process of a container, and its end."""
    with _null() as null:
        argv = ["sh", "-c", script, str(state / "exec.fifo")]
        child = await spawn(argv, stdin=null, stdout=null, stderr=null, env=_ENV)
    process = reference(child.pid)
    assert process is not None
    return asyncio.create_task(child.wait()), process


async def test_waiting_process_executes_the_program(state: Path) -> None:
    end, process = await _first('printf 0 > "$0"; sleep 60', state)
    fifo = fifo_of(state)
    assert fifo is not None
    await release_exec_fifo(fifo, process, _ENV)
    assert fifo_of(state) is None
    assert not end.done()
    os.kill(process.pid, signal.SIGKILL)
    await end


async def test_program_that_ends_at_once_is_no_error(state: Path) -> None:
    end, process = await _first('printf 0 > "$0"; exit 3', state)
    await release_exec_fifo(state / "exec.fifo", process, _ENV)
    assert await end == 3
    assert fifo_of(state) is None


@pytest.mark.parametrize(
    ("script", "words"),
    [("sleep 0.1", "has died before"), (': > "$0"; sleep 1', "did not execute"), ("exit 0", "has died")],
)
async def test_process_that_dies_before_the_program_is_an_error(
    state: Path, script: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykubelet.criserver.oci.fifo._LAST", 0.3)
    end, process = await _first(script, state)
    if script == "exit 0":
        await end
    with pytest.raises(Permanent, match=words):
        await release_exec_fifo(state / "exec.fifo", process, _ENV)
    assert fifo_of(state) is not None
    await end


def test_only_a_fifo_is_found(state: Path, tmp_path: Path) -> None:
    (state / "exec.fifo").unlink()
    assert fifo_of(state) is None
    (state / "exec.fifo").touch()
    assert fifo_of(state) is None


@pytest.mark.parametrize(
    ("name", "hooks", "layout", "by_program"),
    [
        ("runc", False, True, False),
        ("runc", True, True, True),
        ("runc", False, False, True),
        ("crun", False, True, True),
        ("vendor-runc", False, True, True),
    ],
)
async def test_runtime_program_starts_containers_that_need_it(
    state: Path, tmp_path: Path, name: str, hooks: bool, layout: bool, by_program: bool
) -> None:
    """The runtime's program starts a container if it may have more to do, or has another state format."""
    program = tmp_path / name
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/called\nread -r byte < {state}/exec.fifo\nrm {state}/exec.fifo\n")
    program.chmod(0o755)
    if not layout:
        (state / "state.json").unlink()
    runtime = OciRuntime(program=str(program), root=tmp_path / "oci", scratch=tmp_path)
    assert runtime.supports_prelaunch is (name in ("runc", "crun"))
    assert runtime.is_waiting(C1)
    end, process = await _first('printf 0 > "$0"; exit 0', state)
    await runtime.start(C1, None if hooks else process)
    assert (tmp_path / "called").exists() is by_program
    assert not runtime.is_waiting(C1)
    await end

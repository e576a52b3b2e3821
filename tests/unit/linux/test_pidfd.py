"""Waiting for and signalling processes by descriptor."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.linux.pidfd import PidFd


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["/bin/sleep", "600"]) as process:
        yield process
        process.kill()


async def test_all_waiters_hear_of_the_end(sleeper: "subprocess.Popen[bytes]") -> None:
    with PidFd(sleeper.pid) as process:
        assert not process.exited()
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            tasks = [group.create_task(process.wait()) for _ in range(3)]
            await asyncio.sleep(0)
            assert not any(task.done() for task in tasks)
            process.send_signal(signal.SIGTERM)
        assert process.exited()
        await process.wait()
        assert sleeper.wait() == -signal.SIGTERM
        with pytest.raises(NotFound):
            process.send_signal(signal.SIGTERM)


async def test_a_cancelled_wait_leaves_nothing_open(sleeper: "subprocess.Popen[bytes]") -> None:
    with PidFd(sleeper.pid) as process:
        before = len(list(Path("/proc/self/fd").iterdir()))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(process.wait())
            await asyncio.sleep(0)
            task.cancel()
        assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_pidfd_of_an_ended_process_is_not_found() -> None:
    with subprocess.Popen(["/bin/true"]) as process:
        process.wait()
    with pytest.raises(NotFound):
        PidFd(process.pid)


def test_closing_a_pidfd_twice_is_no_error(sleeper: "subprocess.Popen[bytes]") -> None:
    process = PidFd(sleeper.pid)
    process.close()
    process.close()


def test_descriptor_taken_from_a_process_is_the_same_open_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("said")
    with (tmp_path / "file").open() as file, PidFd(os.getpid()) as own:
        taken = own.take(file.fileno())
        file.seek(2)
        assert os.read(taken, 9) == b"id", "it is the same open file, not another one of the same name"
        os.close(taken)
        with pytest.raises(PykubeletError, match="descriptor 987"):
            own.take(987)

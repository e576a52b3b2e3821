"""Subprocesses: output, limits, deadlines, and that nothing stays behind."""

import asyncio
import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pykubelet.base import proc
from pykubelet.base.errors import Invalid, NotFound, Permanent, Transient
from pykubelet.testing.agent import wait_for
from pykubelet.testing.wait import until

SH = "/bin/sh"


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0]
    except FileNotFoundError:
        return False
    return state != "Z"


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_program_gets_input_environment_and_directory_and_returns_its_output() -> None:
    done = await proc.run([SH, "-c", 'cat; echo "$X" >&2; pwd'], input=b"in\n", timeout=10, env={"X": "y"}, cwd="/")
    assert done == proc.CompletedProgram(0, b"in\n/\n", b"y\n")


async def test_large_input_passes_through() -> None:
    data = os.urandom(1 << 20)
    assert (await proc.run(["/bin/cat"], input=data, timeout=10)).stdout == data


async def test_unread_input_is_no_error() -> None:
    done = await proc.run(["/bin/true"], input=b"x" * (1 << 20), timeout=10)
    assert done.returncode == 0


async def test_checked_failure_carries_the_output() -> None:
    with pytest.raises(proc.ExitError, match="/bin/sh ended with exit code 3: bad thing") as caught:
        await proc.run([SH, "-c", "echo out; echo bad thing >&2; exit 3"], timeout=10)
    assert caught.value.completed == proc.CompletedProgram(3, b"out\n", b"bad thing\n")
    assert isinstance(caught.value, Permanent)


async def test_unchecked_failure_is_a_value() -> None:
    assert (await proc.run([SH, "-c", "exit 3"], timeout=10, check=False)).returncode == 3
    assert (await proc.run([SH, "-c", "kill -9 $$"], timeout=10, check=False)).returncode == -9
    with pytest.raises(proc.ExitError, match="killed by SIGKILL"):
        await proc.run([SH, "-c", "kill -9 $$"], timeout=10)


async def test_missing_and_unusable_programs(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="/no/such"):
        await proc.run(["/no/such"], timeout=10)
    with pytest.raises(NotFound, match="nowhere"):
        await proc.run([SH, "-c", ":"], timeout=10, cwd=str(tmp_path / "nowhere"))
    plain = tmp_path / "plain"
    plain.write_text("no program")
    with pytest.raises(Permanent, match="Permission denied"):
        await proc.run([str(plain)], timeout=10)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EAGAIN, errno.ENOMEM, errno.EIO])
async def test_lack_of_the_machine_is_no_error_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Callers take Permanent for the program's own refusal, and do not retry."""

    def lacking(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(subprocess, "Popen", lacking)
    said = f"cannot run {SH}: {os.strerror(number)}"
    with pytest.raises(Transient, match=said):
        await proc.run([SH, "-c", ":"], timeout=10)
    with pytest.raises(Transient, match=said):
        proc.detach([SH, "-c", ":"], log=tmp_path / "log", env={})


async def test_program_that_is_being_written_can_be_run_later(tmp_path: Path) -> None:
    program = tmp_path / "program"
    shutil.copy("/bin/true", program)
    with program.open("ab"), pytest.raises(Transient, match="Text file busy"):
        await proc.run([str(program)], timeout=10)
    assert (await proc.run([str(program)], timeout=10)).returncode == 0


async def test_output_is_capped_and_drained() -> None:
    done = await proc.run([SH, "-c", "head -c 3000000 /dev/zero"], timeout=10, max_output=1000)
    assert (len(done.stdout), done.truncated, done.returncode) == (1000, True, 0)


@pytest.mark.parametrize("stream", ["", ">&2"])
async def test_program_that_writes_more_than_the_limit_is_killed_on_request(stream: str) -> None:
    argv = ["/bin/sh", "-c", f"yes {stream}; true"]
    done = await proc.run(argv, timeout=600, check=False, max_output=1000, stop_at_limit=True)
    assert (len(done.stdout) + len(done.stderr), done.truncated, done.returncode) == (1000, True, -signal.SIGKILL)


async def test_timeout_kills_the_whole_session(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    with pytest.raises(proc.ProgramTimeout, match="did not end within 2 s") as caught:
        await proc.run([SH, "-c", f"trap '' TERM; sleep 300 & echo $! > {marker}; wait; sleep 300"], timeout=2)
    assert isinstance(caught.value, Transient)
    await until(lambda: not alive(int(marker.read_text())))


async def test_cancellation_kills_and_reaps(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    async with asyncio.TaskGroup() as group:
        task = group.create_task(proc.run([SH, "-c", f"echo $$ > {marker}; sleep 300"], timeout=300))
        await until(lambda: marker.exists() and marker.read_text() != "")
        pid = int(marker.read_text())
        task.cancel()
    assert task.cancelled()
    assert not Path(f"/proc/{pid}").exists(), "killed and reaped before the call ended"


async def test_an_outer_timeout_works(tmp_path: Path) -> None:
    marker = tmp_path / "pid"

    async def end(limit: asyncio.Timeout) -> None:
        await until(lambda: marker.exists() and marker.read_text() != "")
        limit.reschedule(0.0)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(None) as limit:
            ending = asyncio.create_task(end(limit))
            await proc.run([SH, "-c", f"echo $$ > {marker}; sleep 300"], timeout=300)
    await ending
    assert not Path(f"/proc/{marker.read_text().strip()}").exists()


async def test_grandchild_with_open_pipes_does_not_delay_the_result() -> None:
    started = time.monotonic()
    done = await proc.run([SH, "-c", "sleep 30 & echo $!"], timeout=20)
    try:
        assert time.monotonic() - started < 10
    finally:
        os.kill(int(done.stdout), signal.SIGKILL)


async def test_processes_that_a_program_leaves_behind_are_killed_on_request() -> None:
    done = await proc.run([SH, "-c", "sleep 300 & echo $!; exit 3"], timeout=20, check=False, kill_leftovers=True)
    assert done.returncode == 3
    await until(lambda: not alive(int(done.stdout)))


async def test_process_that_has_left_the_group_cannot_write_beyond_the_limit(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    script = f"setsid sh -c 'echo $$ >{marker}; exec cat /dev/zero' & until [ -s {marker} ]; do sleep 0.01; done"
    done = await proc.run(
        [SH, "-c", script], timeout=600, check=False, max_output=1000, stop_at_limit=True, kill_leftovers=True
    )
    assert len(done.stdout) <= 1000
    await until(lambda: not alive(int(marker.read_text())))


async def test_child_gets_its_own_session_and_no_descriptors() -> None:
    extra = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(extra, True)
    try:
        script = "import os; print(os.getsid(0) == os.getpid(), sorted(os.listdir('/proc/self/fd'))[:-1])"
        # Isolated, as `make mutants` has Python programs keep a descriptor open.
        done = await proc.run([sys.executable, "-I", "-c", script], timeout=20)
    finally:
        os.close(extra)
    assert done.stdout.decode().strip() == "True ['0', '1', '2']"


async def test_no_descriptor_is_left_open() -> None:
    await proc.run(["/bin/true"], timeout=10)
    await asyncio.sleep(0)
    before = descriptors()
    for _ in range(5):
        await proc.run(["/bin/true"], timeout=10, input=b"x")
    await until(lambda: descriptors() <= before)


async def test_no_thread_is_started_per_child() -> None:
    script = """
import asyncio, threading
from pykubelet.base import proc
async def main():
    await proc.run(["/bin/true"], timeout=10)
    print(threading.active_count())
asyncio.run(main())
"""
    source = str(Path(proc.__file__).parents[2])
    done = await proc.run([sys.executable, "-W", "error", "-c", script], timeout=30, env={"PYTHONPATH": source})
    assert done.stdout == b"1\n"


@pytest.mark.parametrize("rounds", range(12))
async def test_cancellation_at_any_moment_leaks_no_descriptors(rounds: int) -> None:
    before = descriptors()
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        task = group.create_task(proc.run(["/bin/sleep", "300"], timeout=300, input=b"x"))
        for _ in range(rounds):
            await asyncio.sleep(0)
        task.cancel()
    assert task.cancelled()
    assert descriptors() <= before


async def test_a_second_cancellation_does_not_skip_the_reaping(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        task = group.create_task(proc.run([SH, "-c", f"echo $$ > {marker}; sleep 300"], timeout=300))
        await until(lambda: marker.exists() and marker.read_text() != "")
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
    assert task.cancelled()
    assert not Path(f"/proc/{marker.read_text().strip()}").exists()


async def test_a_nul_in_an_argument_is_invalid() -> None:
    with pytest.raises(Invalid, match="null byte"):
        await proc.run(["/bin/echo", "a\0b"], timeout=10)


async def test_passed_descriptors_arrive() -> None:
    ours, theirs = os.pipe()
    try:
        await proc.run([SH, "-c", f"echo hello > /dev/fd/{theirs}"], timeout=10, pass_fds=(theirs,))
        assert os.read(ours, 10) == b"hello\n"
    finally:
        os.close(ours)
        os.close(theirs)


async def test_a_spawned_child_uses_our_descriptors() -> None:
    ours, theirs = os.pipe()
    null = os.open("/dev/null", os.O_RDWR)
    try:
        child = await proc.spawn([SH, "-c", "pwd; exit 7"], stdin=null, stdout=theirs, stderr=null, env={})
        assert await child.wait() == 7
        assert os.read(ours, 10) == b"/\n"
        child.signal(signal.SIGKILL)
    finally:
        for fd in (ours, theirs, null):
            os.close(fd)


async def test_spawned_child_is_killed_when_its_wait_is_cancelled() -> None:
    null = os.open("/dev/null", os.O_RDWR)
    try:
        child = await proc.spawn(["/bin/sleep", "300"], stdin=null, stdout=null, stderr=null, env={})
    finally:
        os.close(null)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(child.wait())
        await asyncio.sleep(0)
        task.cancel()
    assert not Path(f"/proc/{child.pid}").exists()
    with pytest.raises(NotFound):
        await proc.spawn(["/no/such"], stdin=0, stdout=1, stderr=2, env={})


async def test_child_that_ends_when_it_is_given_up_is_closed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second close would close a file of another owner, which has got the number."""
    monkeypatch.setattr(proc, "_REAP_GRACE", 0.0)
    failures: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context))
    null = os.open(os.devnull, os.O_RDWR)
    child = await proc.spawn(["/bin/sleep", "60"], stdin=null, stdout=null, stderr=null, env={})
    os.close(null)
    wait = asyncio.ensure_future(child.wait())
    await asyncio.sleep(0)
    wait.cancel()
    await asyncio.sleep(0)
    wait_for(lambda: not alive(child.pid), 30, str)  # blocks, so that the event loop sees both at once
    with pytest.raises(asyncio.CancelledError):
        await wait
    assert failures == []

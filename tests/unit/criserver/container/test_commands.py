"""Commands in containers, and the reopening of their logs."""

import asyncio
import os
import select
import threading
from pathlib import Path

import pytest

from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import NotFound, Permanent, Transient
from pykubelet.base.units import KIB, MIB, Seconds
from pykubelet.criserver.container.log import LogReopener
from pykubelet.criserver.oci import ExecResult
from pykubelet.criserver.runtimes import MonitoredRuntime, Task
from pykubelet.criserver.types import ContainerID, SandboxID
from pykubelet.testing.wait import until
from tests.unit.criserver.container.rig import Rig, rig_in


async def test_command_runs_with_the_environment_of_its_container(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        with pytest.raises(Permanent, match="is created, not running"):
            await rig.containers.commands.execute(container.id, ["true"], 20)
        await rig.containers.lifecycle.starter.start(container.id)
        script = 'echo "$HOSTNAME"; echo words >&2; exit 5'
        result = await rig.containers.commands.execute(container.id, ["sh", "-c", script], 20)
        assert (result.exit_code, result.stdout, result.stderr) == (5, b"web\n", b"words\n")
        with pytest.raises(NotFound, match="does not exist"):
            await rig.containers.commands.execute("unknown", ["true"], 20)
        await rig.containers.lifecycle.remover.remove(container.id)


async def test_output_of_any_number_of_commands_has_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod has as many commands at a time as it has probes and hooks, and they may write as much as they like."""
    given: list[int] = []
    release = asyncio.Event()

    async def execute(runtime: MonitoredRuntime, task: Task, process: object, timeout: Seconds, output: int) -> object:
        given.append(output)
        await release.wait()
        return ExecResult(0, b"", b"")

    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        await rig.containers.lifecycle.starter.start(container.id)
        monkeypatch.setattr(MonitoredRuntime, "execute", execute)
        run = rig.containers.commands.execute
        async with asyncio.TaskGroup() as group:
            for _ in range(200):
                group.create_task(run(container.id, ["true"], 20))
            await until(lambda: len(given) == 200)
            release.set()
        assert given[0] == 16 * MIB - 64 * KIB
        assert sum(given) <= 192 * MIB + 200 * 128 * KIB
        await run(container.id, ["true"], 20)
        assert given[-1] == given[0]
        await rig.containers.lifecycle.remover.remove(container.id)


@pytest.mark.parametrize("terminal", [False, True])
async def test_process_of_a_command_is_that_of_the_container_with_other_arguments(
    tmp_path: Path, terminal: bool
) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        spec = await rig.containers.commands.spec(container)
        own = spec["process"]
        assert isinstance(own, dict)
        assert own["args"] == ["sleep", "60"]
        process = await rig.containers.commands.process(container, ["date"], terminal)
        assert (process["args"], process["terminal"]) == (["date"], terminal)
        assert process["capabilities"] == own["capabilities"]
        if not terminal:
            assert not (await rig.containers.commands.process(container, ["date"]))["terminal"]


async def test_container_without_a_bundle_has_an_empty_spec(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        await rig.containers.lifecycle.stopper.stop(container.id, 0)
        (rig.deps.directories.bundle(container.id) / "config.json").unlink()
        assert await rig.containers.commands.spec(container) == {}
        with pytest.raises(NotFound, match="it was removed, or the machine was rebooted"):
            await rig.containers.commands.process(container, ["date"])


async def test_commands_are_run_by_the_runtime_of_the_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        asked: list[SandboxID] = []

        def runtime(sandbox: SandboxID) -> MonitoredRuntime:
            asked.append(sandbox)
            return known

        known = rig.sandbox.runtime(container.record.sandbox_id)
        monkeypatch.setattr(rig.sandbox, "runtime", runtime)
        assert rig.containers.commands.runtime(container) is known
        assert asked == [container.record.sandbox_id]


class SteppingClock(SystemClock):
    """A clock that only sleeps advance. They end while ``going`` is set."""

    def __init__(self) -> None:
        self.time = 100.0
        self.going = asyncio.Event()
        self.going.set()

    def monotonic(self) -> Seconds:
        return self.time

    async def sleep(self, seconds: Seconds) -> None:
        self.time += seconds * 100
        await asyncio.sleep(0)
        await self.going.wait()


async def _with_log(rig: Rig, tmp_path: Path) -> tuple[ContainerID, Path, int]:
    """A running container, its log, and the control FIFO, at whose end no conmon reads."""
    (tmp_path / "logs").mkdir()
    rig.sandbox.logs = str(tmp_path / "logs")
    container = await rig.create("sleep", "60")
    await rig.containers.lifecycle.starter.start(container.id)
    control = rig.deps.directories.bundle(container.id) / "ctl"
    os.mkfifo(control)
    return container.id, tmp_path / "logs" / "log", os.open(control, os.O_RDWR)


def _wait_for_request(control: int) -> None:
    """Read the request to reopen the log, as conmon does."""
    assert select.select([control], [], [], 30)[0], "conmon is not asked"
    assert os.read(control, 100) == b"2 0 0\n"


async def test_reopened_log_exists_when_the_call_returns(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        container, log, control = await _with_log(rig, tmp_path)
        clock = SteppingClock()
        clock.going.clear()
        reopener = LogReopener(table=rig.containers.table, directories=rig.deps.directories, clock=clock)
        log.rename(log.with_name("log.1"))
        waited = threading.Event()

        def monitor() -> None:
            os.read(control, 100)
            waited.wait(30)
            log.with_name("log.tmp").rename(log)

        thread = threading.Thread(target=monitor)
        thread.start()
        call = asyncio.create_task(reopener.reopen(container))
        await until(lambda: clock.time > 100)
        assert not call.done()
        waited.set()
        await asyncio.to_thread(thread.join)
        clock.going.set()
        await call
        os.close(control)
        assert log.exists()
        await rig.containers.lifecycle.remover.remove(container)


async def test_log_that_a_pod_replaces_while_it_is_reopened_is_reopened_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The pod wins the race: conmon opens a link, and writes to its target until the next attempt."""
    async with rig_in(tmp_path) as rig:
        container, log, control = await _with_log(rig, tmp_path)
        reopener = LogReopener(table=rig.containers.table, directories=rig.deps.directories, clock=SystemClock())
        following, target = log.with_name("log.tmp"), tmp_path / "target"

        def monitor(replaced: int) -> None:
            for number in range(3):
                _wait_for_request(control)
                if number < replaced:
                    log.with_name("trap").symlink_to(target)
                    log.with_name("trap").rename(following)
                following.rename(log)
                if number >= replaced:
                    return

        await asyncio.gather(asyncio.to_thread(monitor, 2), reopener.reopen(container))
        assert log.is_file() and not log.is_symlink()
        assert caplog.text.count("log of a container replaced") == 2

        async def refused() -> None:
            with pytest.raises(Transient, match="was replaced each time"):
                await reopener.reopen(container)

        await asyncio.gather(asyncio.to_thread(monitor, 3), refused())
        assert not target.exists()
        os.close(control)
        await rig.containers.lifecycle.remover.remove(container)


async def test_calls_that_reopen_one_log_at_the_same_time_follow_each_other(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        container, log, control = await _with_log(rig, tmp_path)
        reopener = LogReopener(table=rig.containers.table, directories=rig.deps.directories, clock=SystemClock())
        opened = []

        def monitor() -> None:
            for _ in range(4):
                _wait_for_request(control)
                opened.append(log.with_name("log.tmp").stat().st_ino)
                log.with_name("log.tmp").rename(log)

        calls = (reopener.reopen(container) for _ in range(4))
        await asyncio.gather(asyncio.to_thread(monitor), *calls)
        assert log.stat().st_ino == opened[-1]
        os.close(control)
        await rig.containers.lifecycle.remover.remove(container)


async def test_monitor_is_not_asked_for_a_log_that_it_could_not_open(tmp_path: Path) -> None:
    """It would end, and the container would have no monitor any more."""
    async with rig_in(tmp_path) as rig:
        container, log, control = await _with_log(rig, tmp_path)
        os.set_blocking(control, False)
        log.with_name("log.tmp").mkdir()
        (log.with_name("log.tmp") / "entry").touch()
        with pytest.raises(Transient, match="cannot remove"):
            await rig.containers.log.reopen(container)
        log.parent.rename(tmp_path / "gone")
        with pytest.raises(NotFound, match="cannot be rotated"):
            await rig.containers.log.reopen(container)
        with pytest.raises(BlockingIOError):
            os.read(control, 100)
        os.close(control)
        (tmp_path / "gone").rename(log.parent)
        await rig.containers.lifecycle.remover.remove(container)


async def test_log_that_is_not_reopened_is_an_error_after_five_seconds(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        container, log, control = await _with_log(rig, tmp_path)
        clock = SteppingClock()
        reopener = LogReopener(table=rig.containers.table, directories=rig.deps.directories, clock=clock)
        log.unlink()
        with pytest.raises(Transient, match=f"conmon did not reopen {log} within 5 s"):
            await reopener.reopen(container)
        assert 105 < clock.time < 106
        assert os.read(control, 100) == b"2 0 0\n"
        os.close(control)
        await rig.containers.lifecycle.remover.remove(container)


async def test_log_without_a_monitor_cannot_be_reopened(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    async with rig_in(tmp_path) as rig:
        rig.sandbox.logs = str(tmp_path / "logs")
        container = await rig.create("sleep", "60")
        with pytest.raises(Permanent, match="not running"):
            await rig.containers.log.reopen(container.id)
        await rig.containers.lifecycle.starter.start(container.id)
        with pytest.raises(NotFound, match="conmon, the monitor, is not running"):
            await rig.containers.log.reopen(container.id)
        assert os.listdir(tmp_path / "logs") == ["log"], "the next log is left"  # noqa: PTH208 - only names
        await rig.containers.lifecycle.remover.remove(container.id)


async def test_container_without_a_log_is_not_waited_for(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        assert container.record.log_path == ""
        await rig.containers.lifecycle.starter.start(container.id)
        os.mkfifo(control := rig.deps.directories.bundle(container.id) / "ctl")
        reader = os.open(control, os.O_RDWR)
        await rig.containers.log.reopen(container.id)
        assert os.read(reader, 100) == b"2 0 0\n"
        os.close(reader)
        await rig.containers.lifecycle.remover.remove(container.id)

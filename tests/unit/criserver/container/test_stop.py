"""StopContainer: which signals are sent, what a stop waits for, and what it leaves of a container not yet started."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pykubelet.base.errors import Transient
from pykubelet.base.units import Seconds
from pykubelet.criserver.container import Container, stop
from pykubelet.criserver.oci import OciRuntime
from pykubelet.criserver.processes import is_alive
from pykubelet.criserver.runtimes import MonitoredRuntime, Task
from pykubelet.criserver.types import ContainerPhase
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.wait import until
from tests.unit.criserver.container.rig import SANDBOX, Rig, record_signals, rig_in


async def test_container_that_ends_at_its_stop_signal_gets_no_sigkill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        await rig.containers.lifecycle.starter.start(container.id)
        signals = record_signals(monkeypatch)
        await rig.containers.lifecycle.stopper.stop(container.id, 50)
        assert signals == [signal.SIGINT]
        assert (container.record.phase, container.record.exit_code) == (ContainerPhase.EXITED, 130)
        await rig.containers.lifecycle.remover.remove(container.id)


@pytest.mark.parametrize("grace", [0.01, 1])
async def test_stop_with_a_short_grace_period_sends_the_stop_signal_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grace: Seconds
) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        await rig.containers.lifecycle.starter.start(container.id)
        signals = record_signals(monkeypatch)
        await rig.containers.lifecycle.stopper.stop(container.id, grace)
        assert signals[0] == signal.SIGINT
        assert container.record.phase is ContainerPhase.EXITED
        await rig.containers.lifecycle.remover.remove(container.id)


async def test_stop_kills_the_program_while_an_update_of_the_container_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig_in(tmp_path) as rig:
        hangs, go = asyncio.Event(), asyncio.Event()

        async def hanging(*_: object) -> None:
            hangs.set()
            await go.wait()

        monkeypatch.setattr(OciRuntime, "update", hanging)
        container = await rig.create("sleep", "60")
        await rig.containers.lifecycle.starter.start(container.id)
        process = container.record.process
        update = asyncio.ensure_future(
            rig.containers.updater.update(container.id, pb.LinuxContainerResources(cpu_shares=7))
        )
        await hangs.wait()
        stopped = asyncio.ensure_future(rig.containers.lifecycle.stopper.stop(container.id, 0))
        await until(lambda: not is_alive(process), 20)
        go.set()
        await update
        await stopped
        assert (container.record.phase, container.record.exit_code) == (ContainerPhase.EXITED, 137)
        await rig.containers.lifecycle.remover.remove(container.id)


async def _stop(rig: Rig, container: Container) -> None:
    await rig.containers.lifecycle.stopper.stop(container.id, 0)


async def _remove(rig: Rig, container: Container) -> None:
    await rig.containers.lifecycle.remover.remove(container.id)


async def _stop_all(rig: Rig, container: Container) -> None:
    await rig.containers.of_sandbox.stop_all(SANDBOX)


async def _remove_all(rig: Rig, container: Container) -> None:
    await rig.containers.of_sandbox.remove_all(SANDBOX)


@pytest.mark.parametrize("act", [_stop, _remove, _stop_all, _remove_all])
async def test_container_that_survives_sigkill_is_reported_and_stays_until_a_retry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Rig, Container], Awaitable[None]]
) -> None:
    """Its client must not conclude that its volumes are free."""

    async def ineffective(runtime: MonitoredRuntime, task: Task, number: int) -> None:
        return None

    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        await rig.containers.lifecycle.starter.start(container.id)
        with monkeypatch.context() as patch:
            patch.setattr(stop, "_KILLED", 0.05)
            patch.setattr(MonitoredRuntime, "signal", ineffective)
            with pytest.raises(Transient, match=f"container {container.id} hangs in the kernel"):
                await act(rig, container)
        assert list(rig.containers.table.visible()) == [container]
        assert container.running
        await act(rig, container)
        assert container.record.exit_code == 137
        await rig.containers.of_sandbox.remove_all(SANDBOX)


async def test_stop_of_a_created_container_is_not_taken_for_the_cause_of_its_later_oom_kill(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        rig.oom_kills.pod = 5
        container = await rig.create("sleep", "60")
        await rig.containers.lifecycle.stopper.stop(container.id, 0)
        await rig.containers.lifecycle.starter.start(container.id)
        rig.oom_kills.pod = 6
        assert container.record.process is not None
        os.kill(container.record.process.pid, signal.SIGKILL)
        await until(lambda: not container.running)
        assert (container.record.exit_code, container.record.reason) == (137, "OOMKilled")
        await rig.containers.lifecycle.remover.remove(container.id)

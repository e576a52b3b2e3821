"""Calls about containers that are cancelled at any point: what they leave can be started, stopped and removed."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from pykubelet.criserver.types import ContainerPhase, ContainerRecord
from pykubelet.testing.wait import until
from tests.unit.criserver.cancelled import cancelled_at_each_point
from tests.unit.criserver.container.rig import SANDBOX, Rig, rig_in


async def _remove_all(rig: Rig, directory: Path) -> None:
    for container in rig.containers.table.visible():
        await rig.containers.lifecycle.remover.remove(container.id)
    assert rig.containers.table.of_sandbox(SANDBOX) == []
    assert await rig.store.load() == ([], [])
    assert rig.images.held == set()
    assert list((directory / "bundles").iterdir()) == []
    await until(lambda: not list((directory / "oci").iterdir()))
    await until(lambda: not _processes(str(directory / "bundles")))


def _processes(mark: str) -> list[str]:
    """The processes with this text in their arguments: the monitors of containers."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and mark.encode() in (entry / "cmdline").read_bytes():
                found.append(entry.name)
    return found


async def test_creation_cancelled_at_any_point_leaves_nothing(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:

        async def prepare() -> Callable[[], Awaitable[object]]:
            return lambda: rig.create("sleep", "60")

        async def check() -> None:
            phases = {each.record.phase for each in rig.containers.table.of_sandbox(SANDBOX)}
            assert phases <= {ContainerPhase.CREATED}, "it was finished before it was cancelled"
            await _remove_all(rig, tmp_path)

        assert await cancelled_at_each_point(prepare, check) > 0


@pytest.mark.parametrize("what", ["start", "remove"])
async def test_start_or_removal_cancelled_at_any_point_is_finished_by_a_retry(tmp_path: Path, what: str) -> None:
    async with rig_in(tmp_path) as rig:
        act = rig.containers.lifecycle.starter.start if what == "start" else rig.containers.lifecycle.remover.remove

        async def prepare() -> Callable[[], Awaitable[object]]:
            container = await rig.create("sleep", "60")
            return lambda: act(container.id)

        async def check() -> None:
            for container in rig.containers.table.visible() if what == "start" else ():
                if container.record.phase is ContainerPhase.CREATED:
                    await rig.containers.lifecycle.starter.start(container.id)
                    assert container.running
            await _remove_all(rig, tmp_path)

        assert await cancelled_at_each_point(prepare, check) > 0


async def test_monitor_that_has_not_yet_written_its_pid_is_ended(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        bundle = tmp_path / "bundles" / container.id
        await until(lambda: (bundle / "pid").exists())
        (bundle / "conmon.pid").write_bytes(b"")
        await _remove_all(rig, tmp_path)


async def test_start_cancelled_while_its_record_is_written_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        written, go, note = asyncio.Event(), asyncio.Event(), rig.store.containers.note

        async def late(record: ContainerRecord) -> None:
            await note(record)
            written.set()
            await go.wait()

        monkeypatch.setattr(rig.store.containers, "note", late)
        start = asyncio.ensure_future(rig.containers.lifecycle.starter.start(container.id))
        await written.wait()
        start.cancel()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await start
        assert container.running
        assert container.record.process is not None
        os.kill(container.record.process.pid, signal.SIGKILL)
        async with asyncio.timeout(30):
            await container.ended.wait()
        assert container.record.exit_code == 137
        await _remove_all(rig, tmp_path)

"""`History`: batches, failures of the disk, and what is forgotten."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.base.clock import SystemClock
from pykubelet.kubelet.report.events import EventConfig, EventLog
from pykubelet.kubelet.report.history import History, HistoryDeps, StartTimes
from pykubelet.kubelet.report.history import history as module
from pykubelet.kubelet.report.history.plan.container_ends import new_ends
from pykubelet.kubelet.report.timeline import PodTimelines
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.reports.events import NORMAL
from pykubelet.kubelet.types.reports.status_changes import StatusChange
from pykubelet.kubelet.types.reports.timeline import Step
from pykubelet.models import core_v1 as core
from pykubelet.models.core_v1 import PodStatus
from pykubelet.models.scalars import time_from_unix
from pykubelet.testing.wait import until
from tests.unit.kubelet.report.pods import REF, pod

UID = REF.uid


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_SECONDS", 0.01)
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.01)


@dataclass
class World:
    """A history with the components that it restores."""

    directory: Path
    capacity: int = 1000
    failures: int = 0
    desired: Collection[PodUID] | None = None
    clock: SystemClock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        self.events = EventLog(
            clock=self.clock, node_name="node", find_pod=lambda uid: None, config=EventConfig(capacity=self.capacity)
        )
        self.timelines, self.starts = PodTimelines(self.clock), StartTimes()
        self.history = History(
            HistoryDeps(
                directory=self.directory,
                events=self.events,
                timelines=self.timelines,
                starts=self.starts,
                telemetry=Telemetry(clock=self.clock, events=self.events, timeline=self.timelines, metrics=self),
            )
        )

    def history_failed(self) -> None:
        self.failures += 1

    @property
    def path(self) -> Path:
        return self.directory / module.FILE_NAME

    def reasons(self) -> list[str]:
        return [event.reason for event in self.events.list()]

    def status(self, started: float, *ended: int) -> None:
        """Report a status with a start time, and ends of containers with these exit codes."""
        states = [core.ContainerState(terminated=_terminated(code)) for code in ended]
        statuses = tuple(
            core.ContainerStatus(name=f"c{n}", ready=False, restart_count=0, state=state)
            for n, state in enumerate(states)
        )
        status = PodStatus(start_time=time_from_unix(started), container_statuses=statuses)
        self.history.status_changed(StatusChange(pod(), None, status, 1))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        await self.history.load()
        task = asyncio.create_task(self.history.run(lambda: self.desired), name="history")
        yield
        task.cancel()
        await asyncio.wait((task,))

    async def written(self, *texts: str) -> None:
        await until(lambda: self.path.is_file() and all(text in self.path.read_text() for text in texts))


def _terminated(code: int) -> core.ContainerStateTerminated:
    return core.ContainerStateTerminated(
        exit_code=code, container_id=f"x://{code}", finished_at=time_from_unix(10.0**9)
    )


async def test_everything_is_there_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world.running():
        world.events.event(REF, NORMAL, "Started", "said")
        world.timelines.pod_seen(pod())
        world.timelines.end(UID, Step.SANDBOX)
        world.timelines.end(UID, Step.READY)
        world.status(1000.0)
        await world.written('"type":"event"', '"type":"pod"', '"type":"timeline"')
    again = World(tmp_path)
    await again.history.load()
    assert again.reasons() == ["Started"]
    assert again.starts.get(UID) == 1000.0
    before, after = world.timelines.view(UID), again.timelines.view(UID)
    assert before is not None
    assert after is not None
    assert (after.started_at, after.total_s, after.ready) == (before.started_at, before.total_s, True)


async def test_timeline_is_written_again_only_if_it_has_changed(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world.running():
        world.timelines.pod_seen(pod())
        world.timelines.end(UID, Step.SANDBOX)
        world.timelines.end(UID, Step.READY)
        for number in range(3):
            world.status(1000.0 + number)
            await world.written(f'"at":{1000.0 + number}')
        assert world.path.read_text().count('"type":"timeline"') == 1
        world.timelines.end(UID, Step.SANDBOX)
        world.status(2000.0)
        await world.written('"at":2000.0')
    assert world.path.read_text().count('"type":"timeline"') > 1


async def test_text_that_is_not_utf_8_keeps_nothing_else_from_the_file(tmp_path: Path) -> None:
    world = World(tmp_path)
    odd = core.ContainerState(terminated=replace(_terminated(1), reason="\udcff"))
    status = core.ContainerStatus(name="c", ready=False, restart_count=0, state=odd)
    async with world.running():
        world.events.event(REF, NORMAL, "Odd\udcff", "its message would be replaced")
        world.events.event(REF, NORMAL, "Started", "said")
        world.history.status_changed(StatusChange(pod(), None, PodStatus(container_statuses=(status,)), 1))
        world.status(1000.0)
        await world.written('"Started"', '"type":"pod"')
    assert "Odd" not in world.path.read_text()


async def test_pending_changes_are_written_when_the_agent_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_SECONDS", 3600.0)
    world = World(tmp_path)
    async with world.running():
        world.events.event(REF, NORMAL, "Started", "said")
        await asyncio.sleep(0)
        assert not world.path.exists()
    assert '"Started"' in world.path.read_text()


async def test_ends_of_old_containers_are_kept_once_and_dropped_after_a_week(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.history.load()
    world.status(1.0, 3, 4)
    world.status(1.0, 3, 4, 5)
    assert [end.exit_code for end in world.history.ends(UID)] == [3, 4, 5]
    assert world.history.ends(PodUID("other")) == ()


async def test_pods_that_no_source_lists_any_more_are_forgotten(tmp_path: Path) -> None:
    first = World(tmp_path)
    async with first.running():
        first.status(1000.0)
        await first.written('"type":"pod"')
    world = World(tmp_path)
    async with world.running():
        assert world.starts.get(UID) == 1000.0
        world.events.event(REF, NORMAL, "One", "")
        await world.written('"One"')
        assert world.starts.get(UID) == 1000.0, "a source has not been read yet"
        world.desired = ()
        world.events.event(REF, NORMAL, "Two", "")
        await world.written('"Two"', '"type":"gone"')
        assert world.starts.get(UID) is None
    third = World(tmp_path)
    await third.history.load()
    assert third.starts.get(UID) is None


async def test_removed_pod_is_forgotten(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world.running():
        world.status(1000.0, 3)
        world.timelines.pod_seen(pod())
        world.starts.forget(UID)
        assert (world.history.ends(UID), world.timelines.view(UID)) == ((), None)
        world.status(2000.0)
        await world.written('"type":"gone"')
    again = World(tmp_path)
    await again.history.load()
    assert again.starts.get(UID) == 2000.0


async def test_pod_that_is_removed_while_its_timeline_is_written_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, writing, released = World(tmp_path), threading.Event(), threading.Event()
    append: Callable[..., str] = world.history._file.append

    def slow(*args: object) -> str:
        writing.set()
        released.wait(30)
        return append(*args)

    monkeypatch.setattr(world.history._file, "append", slow)
    async with world.running():
        world.timelines.pod_seen(pod())
        world.timelines.end(UID, Step.SANDBOX)
        world.timelines.end(UID, Step.READY)
        world.status(1000.0)
        await until(writing.is_set)
        world.starts.forget(UID)
        released.set()
        await world.written('"type":"timeline"', '"type":"gone"')
    assert not world.history._written


async def test_unwritable_file_is_one_warning_and_is_written_later(tmp_path: Path) -> None:
    world = World(tmp_path / "d")
    (tmp_path / "d").write_text("in the way")
    async with world.running():
        world.events.event(REF, NORMAL, "Started", "said")
        await until(lambda: world.failures > 3)
        assert world.reasons().count("HistoryUnavailable") == 1
        (tmp_path / "d").unlink()
        (tmp_path / "d").mkdir()
        await world.written('"Started"', '"HistoryUnavailable"')
    assert world.reasons().count("HistoryUnavailable") == 1


async def test_damaged_file_is_an_event(tmp_path: Path) -> None:
    (tmp_path / module.FILE_NAME).write_bytes(os.urandom(1000))
    world = World(tmp_path)
    async with world.running():
        assert world.reasons() == ["HistoryDamaged"]
        await world.written('"HistoryDamaged"')


async def test_disk_that_hangs_delays_no_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOAD_SECONDS", 0.05)
    world, released = World(tmp_path), threading.Event()
    monkeypatch.setattr(world.history._file, "load", lambda *_: released.wait())
    try:
        await world.history.load()
    finally:
        released.set()
    assert world.reasons() == ["HistoryUnavailable"]


async def test_batch_that_raises_is_followed_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    append: Callable[..., str] = world.history._file.append
    failed: list[int] = []

    def broken(*args: object) -> str:
        if not failed:
            failed.append(1)
            raise RuntimeError("a defect")
        return append(*args)

    monkeypatch.setattr(world.history._file, "append", broken)
    async with world.running():
        world.events.event(REF, NORMAL, "Started", "said")
        await world.written('"Started"')
    assert failed


async def test_events_beyond_the_memory_are_listed_from_the_file(tmp_path: Path) -> None:
    world = World(tmp_path, capacity=3)
    async with world.running():
        for number in range(8):
            world.events.event(REF, NORMAL, f"R{number}", "")
        await world.written('"R7"')
        assert world.reasons() == ["R5", "R6", "R7"]
        older = await world.history.older_events(lambda event: event.reason != "R2")
        assert [event.reason for event in older] == ["R0", "R1", "R3", "R4"]
    again = World(tmp_path, capacity=3)
    await again.history.load()
    assert again.reasons() == ["R5", "R6", "R7"]
    assert len(await again.history.older_events(lambda event: True)) == 5


async def test_concurrent_readers_of_older_events_share_the_next_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, reads, released = World(tmp_path, capacity=1), 0, threading.Event()
    async with world.running():
        for number in range(4):
            world.events.event(REF, NORMAL, f"R{number}", "")
        await world.written('"R3"')
    read = world.history._file.older_events

    def slow(*args: Any) -> list[core.Event]:
        nonlocal reads
        reads += 1
        released.wait(30)
        return read(*args)

    monkeypatch.setattr(world.history._file, "older_events", slow)
    first = asyncio.create_task(world.history.older_events(lambda _: True))
    await until(lambda: reads == 1)
    others = [
        asyncio.create_task(world.history.older_events(lambda event, n=n: event.reason != f"R{n % 3}"))  # type: ignore[misc]
        for n in range(50)
    ]
    await asyncio.sleep(0)
    released.set()
    assert [event.reason for event in await first] == ["R0", "R1", "R2"]
    assert [event.reason for event in (await asyncio.gather(*others))[1]] == ["R0", "R2"]
    assert reads == 2


async def test_reader_that_goes_away_keeps_no_other_from_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, reads = World(tmp_path, capacity=1), 0
    async with world.running():
        for number in range(4):
            world.events.event(REF, NORMAL, f"R{number}", "")
        await world.written('"R3"')
    read = world.history._file.older_events

    def count(*args: Any) -> list[core.Event]:
        nonlocal reads
        reads += 1
        return read(*args)

    monkeypatch.setattr(world.history._file, "older_events", count)
    gone, stays = (asyncio.create_task(world.history.older_events(lambda _: True)) for _ in range(2))
    await asyncio.sleep(0)
    gone.cancel()
    assert len(await stays) == 3


async def test_pending_changes_are_bounded_while_the_history_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_PENDING", 10)
    (tmp_path / "d").write_text("in the way")
    world = World(tmp_path / "d")
    async with world.running():
        for number in range(20):
            failures = world.failures
            world.events.event(REF, NORMAL, f"R{number}", "")
            if number % 5 == 0:
                await until(lambda before=failures: world.failures > before)  # type: ignore[misc]
        assert len(world.history._events) <= 10
        (tmp_path / "d").unlink()
        (tmp_path / "d").mkdir()
        await world.written('"R19"')
    assert '"R1"' not in world.path.read_text()


def test_ends_of_a_container_are_found_in_its_last_state_too() -> None:
    first = core.ContainerState(terminated=_terminated(1))
    second = core.ContainerState(terminated=_terminated(2))
    before = PodStatus(
        container_statuses=(core.ContainerStatus(name="c", ready=False, restart_count=0, last_state=first),)
    )
    after = PodStatus(
        container_statuses=(
            core.ContainerStatus(name="c", ready=False, restart_count=0, last_state=first, state=second),
        )
    )
    assert [end.exit_code for end in new_ends(before, after)] == [2]
    assert [end.exit_code for end in new_ends(None, after)] == [1, 2]
    assert new_ends(after, after) == []

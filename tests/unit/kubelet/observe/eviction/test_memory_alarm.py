"""The alarm over files in the place of the kernel's."""

import asyncio
import os
from pathlib import Path

import pytest

from pykubelet.base.units import Bytes
from pykubelet.kubelet.observe.eviction import memory_alarm
from pykubelet.kubelet.observe.eviction.eviction_types import Signal
from pykubelet.kubelet.observe.eviction.memory_alarm import AlarmConfig, MemoryAlarm
from pykubelet.linux.cgroups.memory_events import MemoryEvents
from pykubelet.testing.clock import VirtualClock
from tests.unit.linux.cgroup_v1 import cgroup, written

GROWTH = {Signal.MEMORY: (Bytes(24),)}


async def test_notification_ends_the_wait(tmp_path: Path) -> None:
    directory, clock = cgroup(tmp_path, "root", 1000), VirtualClock()
    alarm = MemoryAlarm(AlarmConfig(usage={Signal.MEMORY: directory}), clock)
    await alarm.arm(GROWTH)
    assert written(directory)[2] == 1024
    for _ in range(3):
        waiting = asyncio.create_task(alarm.wait(10))
        await clock.settle()
        assert not waiting.done()
        os.eventfd_write(written(directory)[0], 1)
        assert await waiting
    alarm.close()
    alarm.close()


async def test_notification_during_a_look_ends_the_next_wait(tmp_path: Path) -> None:
    directory, clock = cgroup(tmp_path, "root", 1000), VirtualClock()
    alarm = MemoryAlarm(AlarmConfig(usage={Signal.MEMORY: directory}), clock)
    await alarm.arm(GROWTH)
    os.eventfd_write(written(directory)[0], 1)
    assert await alarm.wait(10)
    alarm.close()


async def test_wait_without_notification_ends_at_its_time(tmp_path: Path) -> None:
    directory, clock = cgroup(tmp_path, "root", 1000), VirtualClock()
    for alarm in (
        MemoryAlarm(AlarmConfig(), clock),
        MemoryAlarm(AlarmConfig(usage={Signal.MEMORY: directory}), clock),
    ):
        for _ in range(2):
            waiting = asyncio.create_task(alarm.wait(10))
            await clock.advance(10)
            assert not await waiting
            await alarm.arm(GROWTH)
        alarm.close()


async def test_notification_the_kernel_refuses_is_logged_once_and_the_others_are_armed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    plain = tmp_path / "plain"
    plain.touch()
    directory, clock = cgroup(tmp_path, "root", 1000), VirtualClock()
    usage = {Signal.MEMORY: directory}
    alarm = MemoryAlarm(AlarmConfig(usage=usage, pressure=plain, events=tmp_path / "pods" / "memory.events"), clock)
    for _ in range(3):
        await alarm.arm(GROWTH)
    assert [record.getMessage() for record in caplog.records] == ["pressure: no notification by the kernel"]
    assert written(directory)[2] == 1024
    alarm.close()


async def test_events_of_the_pods_are_watched_once_their_cgroup_exists(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    events = tmp_path / "memory.events"
    alarm = MemoryAlarm(AlarmConfig(events=events), VirtualClock())
    await alarm.arm({})
    assert not caplog.records
    events.touch()  # not the kernel's: watching it fails, which shows that it was tried
    for _ in range(2):
        await alarm.arm({})
    assert len(caplog.records) == 1
    alarm.close()


class Recorded(MemoryEvents):
    """Notifications that the test sends, of files that need not be the kernel's."""

    def __init__(self) -> None:
        super().__init__()
        self.watched: list[tuple[Path, int]] = []
        self.taken = [False]

    def take(self) -> bool:
        return self.taken.pop() if self.taken else super().take()

    def watch_file(self, file: Path) -> None:
        self.watched.append((file, file.stat().st_ino))

    def unwatch(self, file: Path) -> None:
        self.watched = [each for each in self.watched if each[0] != file]


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Recorded]:
    made: list[Recorded] = []

    def make() -> Recorded:
        made.append(Recorded())
        return made[-1]

    monkeypatch.setattr(memory_alarm, "MemoryEvents", make)
    return made


async def test_events_of_a_cgroup_that_was_made_again_are_watched_again(
    tmp_path: Path, recorded: list[Recorded]
) -> None:
    events = tmp_path / "memory.events"
    alarm = MemoryAlarm(AlarmConfig(events=events), VirtualClock())
    events.touch()
    for _ in range(2):
        await alarm.arm({})
        assert recorded[0].watched == [(events, events.stat().st_ino)]
    successor = tmp_path / "successor"
    successor.touch()
    successor.rename(events)
    await alarm.arm({})
    assert recorded[0].watched == [(events, events.stat().st_ino)]
    events.unlink()
    await alarm.arm({})
    assert recorded[0].watched == []
    events.touch()
    await alarm.arm({})
    assert recorded[0].watched == [(events, events.stat().st_ino)]
    alarm.close()


async def test_closed_alarm_watches_all_files_when_it_is_armed_again(tmp_path: Path, recorded: list[Recorded]) -> None:
    events = tmp_path / "memory.events"
    events.touch()
    alarm = MemoryAlarm(AlarmConfig(events=events), VirtualClock())
    for _ in range(2):
        await alarm.arm({})
        alarm.close()
    assert [len(each.watched) for each in recorded] == [1, 1]


async def test_notification_that_makes_no_descriptor_readable_ends_the_wait(recorded: list[Recorded]) -> None:
    # The kernel reports a pressure event once, to the first poll: that of add_reader, or that of take.
    clock = VirtualClock()
    alarm = MemoryAlarm(AlarmConfig(), clock)
    await alarm.arm({})
    recorded[0].taken = [True]
    assert await alarm.wait(10)
    recorded[0].taken = [True, False]
    waiting = asyncio.create_task(alarm.wait(10))
    await clock.advance(10)
    assert await waiting
    alarm.close()

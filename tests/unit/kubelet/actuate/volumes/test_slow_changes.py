"""Changes of volumes that take longer than a blocking call may."""

import asyncio
import os
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from pykubelet.base.errors import Transient
from pykubelet.kubelet.actuate.volumes.ownership import ChangeProgress, give_to_group
from pykubelet.kubelet.actuate.volumes.volume_threads import SlowChanges
from pykubelet.kubelet.types.ids import PodRef, PodUID
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.wait import held_calls, until
from tests.unit.kubelet.actuate.volumes.build import Events

POD = PodRef(namespace="shop", name="web", uid=PodUID("u-1"))
PATH = Path("/root-dir/pods/u-1/volumes/kubernetes.io~csi/data/mount")
SHOWN = "u-1/volumes/kubernetes.io~csi/data/mount"


class Steps:
    """A change whose files the test changes one by one."""

    def __init__(self) -> None:
        self.progress: ChangeProgress | None = None
        self.begun = threading.Event()
        self.go = threading.Semaphore(0)
        self.last = False
        self.ended = threading.Event()

    def has_changed(self, files: int) -> bool:
        """Whether so many files were changed."""
        return self.progress is not None and self.progress.files == files

    def __call__(self, *, progress: ChangeProgress) -> None:
        self.progress = progress
        self.begun.set()
        try:
            while not self.last:
                self.go.acquire()
                progress.check()
                progress.files += 1
        finally:
            self.ended.set()


@pytest.fixture
def steps() -> Iterator[Steps]:
    made = Steps()
    with held_calls():
        yield made
    made.last = True
    made.go.release()
    if made.progress is not None:
        assert made.ended.wait(10)


@pytest.fixture
def events() -> Events:
    return Events()


def changes(events: Events, clock: VirtualClock, stall: float = 100.0) -> SlowChanges:
    return SlowChanges(events=events, clock=clock, stall=stall)


async def test_long_change_is_reported_after_half_a_minute_and_then_each_minute(steps: Steps, events: Events) -> None:
    clock = VirtualClock()
    running = asyncio.create_task(changes(events, clock).run(POD, "pod/u-1/volumes", PATH, steps))
    await until(steps.begun.is_set)
    for number, seconds in enumerate((29, 1, 59, 1), 1):
        steps.go.release()
        await until(partial(steps.has_changed, number))
        await clock.advance(seconds)
    first, second = events.seen
    assert first[0] == second[0] == "VolumePermissionChangeInProgress"
    assert first[1].startswith(f"Setting volume ownership for {SHOWN} is taking longer than expected, consider using")
    assert second[1] == f"Setting volume ownership for {SHOWN}, processed 4 files."
    steps.last = True
    steps.go.release()
    await running


async def test_change_that_lasts_longer_than_the_stall_but_goes_on_is_not_given_up(
    steps: Steps, events: Events
) -> None:
    clock = VirtualClock()
    running = asyncio.create_task(changes(events, clock, stall=100.0).run(POD, "pod/u-1/volumes", PATH, steps))
    await until(steps.begun.is_set)
    assert steps.progress is not None
    for number in range(1, 6):
        steps.go.release()
        await until(partial(steps.has_changed, number))
        await clock.advance(90)
    assert not running.done()
    steps.last = True
    steps.go.release()
    await running


async def test_change_without_progress_is_given_up_and_asked_to_stop(steps: Steps, events: Events) -> None:
    clock = VirtualClock()
    running = asyncio.create_task(changes(events, clock).run(POD, "pod/u-1/volumes", PATH, steps))
    await until(steps.begun.is_set)
    await clock.advance(99)
    assert not running.done()
    await clock.advance(1)
    with pytest.raises(Transient, match="no file was changed for 100 s"):
        await running
    assert steps.progress is not None
    with pytest.raises(Transient, match="stopped"):
        steps.progress.check()


async def test_cancelled_change_stops_before_its_next_file(steps: Steps, events: Events) -> None:
    running = asyncio.create_task(changes(events, VirtualClock()).run(POD, "pod/u-1/volumes", PATH, steps))
    await until(steps.begun.is_set)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    steps.go.release()
    assert await asyncio.to_thread(steps.ended.wait, 10)
    assert steps.progress is not None and steps.progress.files == 0


async def test_error_of_the_change_is_passed_on(events: Events, tmp_path: Path) -> None:
    change = partial(give_to_group, tmp_path / "missing", os.getgid())
    with pytest.raises(FileNotFoundError):
        await changes(events, VirtualClock()).run(POD, "pod/u-1/volumes", PATH, change)


def test_stopped_progress_ends_a_walk(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / str(number)).mkdir()
    progress = ChangeProgress()
    progress.stop()
    with pytest.raises(Transient):
        give_to_group(tmp_path, os.getgid(), progress=progress)

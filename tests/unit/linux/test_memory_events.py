"""Notifications of the kernel, with files in their place and, where the machine permits it, with the kernel's own."""

import os
import select
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid, NotFound, PykubeletError
from pykubelet.base.units import Bytes
from pykubelet.linux.cgroups.memory_events import MemoryEvents
from tests.unit.linux.cgroup_v1 import cgroup, written


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def readable(events: MemoryEvents) -> bool:
    return bool(select.select([events], [], [], 0)[0])


def test_growth_is_added_to_the_present_usage(tmp_path: Path) -> None:
    one, other = cgroup(tmp_path, "one", 1000), cgroup(tmp_path, "other", 50)
    events = MemoryEvents()
    events.watch_growth([(one, Bytes(24)), (other, Bytes(1))])
    assert (written(one)[2], written(other)[2]) == (1024, 51)
    events.close()


def test_set_is_readable_from_a_notification_until_it_is_taken(tmp_path: Path) -> None:
    directory = cgroup(tmp_path, "pods", 1000)
    events = MemoryEvents()
    events.watch_growth([(directory, Bytes(24))])
    assert not readable(events)
    for _ in range(100):
        os.eventfd_write(written(directory)[0], 1)
    assert readable(events)
    assert events.take()
    assert not readable(events) and not events.take()
    os.eventfd_write(written(directory)[0], 1)
    assert readable(events)
    events.close()


def test_new_growth_replaces_the_former_one(tmp_path: Path) -> None:
    directory = cgroup(tmp_path, "pods", 1000)
    events = MemoryEvents()
    before = descriptors()
    for growth in range(20):
        events.watch_growth([(directory, Bytes(growth))])
    assert descriptors() <= before + 1
    events.close()
    events.close()
    assert events.fileno() == -1


def test_missing_files_are_named_and_leave_nothing_open(tmp_path: Path) -> None:
    good = cgroup(tmp_path, "good", 1)
    events = MemoryEvents()
    before = descriptors()
    with pytest.raises(NotFound, match=r"memory\.usage_in_bytes"):
        events.watch_growth([(good, Bytes(1)), (tmp_path / "absent", Bytes(1))])
    (good / "cgroup.event_control").unlink()
    with pytest.raises(NotFound, match=r"cgroup\.event_control"):
        events.watch_growth([(good, Bytes(1))])
    with pytest.raises(NotFound, match=r"memory\.events"):
        events.watch_file(tmp_path / "memory.events")
    with pytest.raises(NotFound, match="pressure"):
        events.watch_pressure(tmp_path / "pressure", stall=0.1, window=1)
    (tmp_path / "file").touch()
    with pytest.raises(PykubeletError, match="file"):
        events.watch_file(tmp_path / "file")
    with pytest.raises(PykubeletError, match="some 100000 1000000"):
        events.watch_pressure(tmp_path / "file", stall=0.1, window=1)
    assert descriptors() <= before
    events.close()


def test_file_is_watched_until_it_is_released() -> None:
    file = Path("/proc/self/mountinfo")  # it signals EPOLLPRI, as files of cgroups do
    events = MemoryEvents()
    before = descriptors()
    for _ in range(3):
        events.watch_file(file)
        assert descriptors() <= before + 1
        events.unwatch(file)
        events.unwatch(file)
        assert descriptors() <= before
    events.close()


@pytest.mark.root
def test_kernel_accepts_a_pressure_trigger() -> None:
    file = Path("/proc/pressure/memory")
    if not file.exists():
        pytest.skip("the kernel has no pressure stall information")
    events = MemoryEvents()
    events.watch_pressure(file, stall=0.05, window=2.0)
    with pytest.raises(Invalid):
        events.watch_pressure(file, stall=3.0, window=2.0)
    events.close()

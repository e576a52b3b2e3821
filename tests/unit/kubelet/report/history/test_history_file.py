"""The history file: what is read again, what is set aside, and its bounds."""

import os
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.files.state_files import damaged_files
from pykubelet.base.units import Bytes
from pykubelet.kubelet.report.history.history_file import HistoryFile
from pykubelet.kubelet.report.history.history_types import (
    EndRecord,
    EventRecord,
    GoneRecord,
    HistoryLimits,
    StartRecord,
    TimelineRecord,
)
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.reports.container_ends import ContainerEnd
from pykubelet.kubelet.types.reports.timeline_views import TimelineView
from pykubelet.models import codec
from pykubelet.models.core_v1 import Event, EventSource, ObjectReference
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.models.scalars import time_from_unix

NOW = 1_800_000_000.0
LIMITS = HistoryLimits()
A, B = PodUID("a"), PodUID("b")


def record(event: Event, at: float = NOW) -> EventRecord:
    meta = event.metadata
    return EventRecord(f"{meta.namespace}/{meta.name}", at, msgspec.Raw(codec.encode(event)))


def event(name: str, at: float = NOW, message: str = "said") -> EventRecord:
    meta = ObjectMeta(name=name, namespace="ns")
    return record(Event(metadata=meta, involved_object=ObjectReference(kind="Pod"), message=message), at)


def kubelet_event(name: str, path: str = "") -> Event:
    """An event with every field that the event log sets."""
    moment = time_from_unix(NOW)
    pod = ObjectReference(api_version="v1", kind="Pod", namespace="ns", name="pod", uid="pod-uid", field_path=path)
    return Event(
        api_version="v1",
        kind="Event",
        metadata=ObjectMeta(
            name=name, namespace="ns", uid=f"ns/{name}", creation_timestamp=moment, resource_version=f"7{name}"
        ),
        involved_object=pod,
        type="Normal",
        reason="Started",
        message="Started container c",
        count=1,
        first_timestamp=moment,
        last_timestamp=moment,
        source=EventSource(component="kubelet", host="node"),
        reporting_component="kubelet",
        reporting_instance="node",
    )


def end(number: int, at: float = NOW) -> ContainerEnd:
    return ContainerEnd(
        container="c", container_id=f"x://{number}", exit_code=1, reason="Error", started_at=at - 1, finished_at=at
    )


def timeline(uid: str, at: float = NOW) -> TimelineRecord:
    return TimelineRecord(PodUID(uid), at, TimelineView(pod="ns/p", uid=uid, started_at=at, total_s=1.0))


def names(events: Iterable[Event]) -> list[str]:
    return [each.metadata.name for each in events]


def test_records_are_read_again_and_the_last_of_a_key_counts(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "new" / "h", LIMITS)
    assert file.load(NOW, 10).events == ()
    assert file.append([event("one"), event("two"), StartRecord(A, 5.0), timeline("a")], NOW) == ""
    assert file.append([event("one", message="again"), EndRecord(A, end(1)), StartRecord(B, 7.0)], NOW) == ""
    found = HistoryFile(tmp_path / "new" / "h", LIMITS).load(NOW, 10)
    assert [(e.metadata.name, e.message) for e in found.events] == [("two", "said"), ("one", "again")]
    assert (found.started, found.ends) == ({A: 5.0, B: 7.0}, {A: (end(1),)})
    assert [view.uid for view in found.timelines.values()] == ["a"]
    assert (found.damage, found.more_events) == ("", False)
    assert (tmp_path / "new" / "h").stat().st_mode & 0o777 == 0o600


def test_removed_pod_is_forgotten_and_one_listed_again_is_new(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "h", LIMITS)
    file.append([StartRecord(A, 5.0), timeline("a"), EndRecord(A, end(1)), GoneRecord(A)], NOW)
    found = file.load(NOW, 10)
    assert (found.started, found.timelines, found.ends) == ({}, {}, {})
    file.append([StartRecord(A, 9.0)], NOW)
    assert file.load(NOW, 10).started == {A: 9.0}


def test_events_and_ends_are_kept_for_a_week(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "h", LIMITS)
    old = NOW - LIMITS.keep_for - 1
    file.append([event("old", old), event("new"), EndRecord(A, end(1, old)), EndRecord(A, end(2))], NOW)
    found = file.load(NOW, 10)
    assert (names(found.events), found.ends) == (["new"], {A: (end(2),)})


def test_events_of_a_pod_are_one_object_where_they_are_equal(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "h", LIMITS)
    written = [kubelet_event(name) for name in ("one", "two")]
    file.append([record(each) for each in written], NOW)
    one, two = file.load(NOW, 10).events
    assert [one, two] == written
    apart = [name for name in one.__struct_fields__ if getattr(one, name) is not getattr(two, name)]
    assert apart == ["metadata"]
    metas = one.metadata, two.metadata
    apart = [name for name in metas[0].__struct_fields__ if getattr(metas[0], name) is not getattr(metas[1], name)]
    assert apart == ["name", "resource_version", "uid"]


def test_references_to_containers_of_a_pod_have_the_name_of_the_pod_once(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "h", LIMITS)
    file.append([record(kubelet_event(path, path)) for path in ("", "spec.containers{c}")], NOW)
    one, two = (each.involved_object for each in file.load(NOW, 10).events)
    apart = [name for name in one.__struct_fields__ if getattr(one, name) is not getattr(two, name)]
    assert apart == ["field_path"]


def test_only_the_newest_events_are_loaded_and_the_others_read_on_request(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "h", LIMITS)
    file.append([event(str(n)) for n in range(10)], NOW)
    found = file.load(NOW, 3)
    assert (names(found.events), found.more_events) == (["7", "8", "9"], True)
    older = file.older_events(NOW, frozenset({"ns/7", "ns/8", "ns/9"}))
    assert names(older) == ["0", "1", "2", "3", "4", "5", "6"]


def test_numbers_of_records_are_limited_and_the_file_is_rewritten(tmp_path: Path) -> None:
    limits = HistoryLimits(events=50, timelines=3, pods=5, ends_of_pod=2)
    path = tmp_path / "h"
    file = HistoryFile(path, limits)
    sizes = []
    for number in range(6000):
        uid, other = PodUID(f"p{number % 4}"), PodUID(f"q{number % 10}")
        file.append([event(str(number)), timeline(uid), StartRecord(other, 1.0), EndRecord(uid, end(number))], NOW)
        sizes.append(path.stat().st_size)
    found = file.load(NOW, 1000)
    assert names(found.events) == [str(n) for n in range(5950, 6000)]
    assert (len(found.timelines), len(found.started), {len(e) for e in found.ends.values()}) == (3, 5, {2})
    assert max(sizes) < 1_500_000, "4,100 lines of about 250 bytes"


def test_file_that_is_too_large_loses_its_oldest_events(tmp_path: Path) -> None:
    limits = HistoryLimits(file=Bytes(100_000))
    file = HistoryFile(tmp_path / "h", limits)
    for number in range(100):
        file.append([event(str(number), message="x" * 4000), StartRecord(A, 1.0)], NOW)
        assert (tmp_path / "h").stat().st_size <= 110_000
    found = file.load(NOW, 1000)
    assert names(found.events)[-1] == "99"
    assert found.started == {A: 1.0}


def test_record_that_is_too_long_is_left_out(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "h", LIMITS)
    file.append([event("long", message="x" * LIMITS.record), event("short")], NOW)
    assert names(file.load(NOW, 10).events) == ["short"]


@given(cut=st.integers(min_value=1, max_value=400))
def test_unfinished_write_at_the_end_is_no_damage(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("cut") / "h"
    file = HistoryFile(path, LIMITS)
    file.append([event("whole"), StartRecord(A, 1.0)], NOW)
    whole = path.stat().st_size
    file.append([event("torn")], NOW)
    os.truncate(path, max(whole, path.stat().st_size - cut))
    again = HistoryFile(path, LIMITS)
    found = again.load(NOW, 10)
    assert (names(found.events), found.damage) == (["whole"], "")
    again.append([event("after")], NOW)
    assert names(HistoryFile(path, LIMITS).load(NOW, 10).events) == ["whole", "after"]


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    lines = data.split(b"\n")
    lines[2] = lines[2][:20] + b"#" + lines[2][21:]
    path.write_bytes(b"\n".join(lines))


def newer(path: Path) -> None:
    text = b'{"type":"history","version":2}'
    path.write_bytes(b"%08x %s\n" % (zlib.crc32(text), text))


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


DAMAGES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "a flipped bit": (flip, ["one", "three"]),
    "garbage": (lambda path: path.write_bytes(b"\0" * 5000), []),
    "a newer version": (newer, []),
    "a FIFO": (fifo, []),
    "a directory": (directory, []),
    "a link": (link, []),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_file_is_set_aside_and_a_new_one_begun(tmp_path: Path, name: str) -> None:
    path = tmp_path / "h"
    file = HistoryFile(path, LIMITS)
    file.append([event("one"), event("two"), event("three")], NOW)
    damage, left = DAMAGES[name]
    damage(path)
    again = HistoryFile(path, LIMITS)
    found = again.load(NOW, 10)
    assert "is damaged, it is kept as" in found.damage
    assert names(found.events) == left
    assert [each.path for each in damaged_files()][-1] == str(path)
    assert (tmp_path / "h.aside-1").exists()
    assert again.append([event("four")], NOW) == ""
    last = HistoryFile(path, LIMITS).load(NOW, 10)
    assert (names(last.events), last.damage) == ([*left, "four"], "")


def test_obstacle_that_appears_later_is_set_aside_by_the_next_write(tmp_path: Path) -> None:
    path = tmp_path / "h"
    file = HistoryFile(path, LIMITS)
    file.append([event("one")], NOW)
    directory(path)
    assert "not a regular file" in file.append([event("two")], NOW)
    assert names(file.load(NOW, 10).events) == ["two"]


def test_failed_write_leaves_no_part_of_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "h"
    file = HistoryFile(path, LIMITS)
    file.append([event("one")], NOW)
    before = path.read_bytes()
    write = os.write

    def full(fd: int, data: bytes) -> int:
        if len(data) < 50:
            raise OSError(28, "No space left on device")
        return write(fd, data[:40])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        file.append([event("two")], NOW)
    monkeypatch.undo()
    assert path.read_bytes() == before


@given(data=st.binary(max_size=2000))
def test_any_content_is_read_or_set_aside(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "h"
    path.write_bytes(data)
    file = HistoryFile(path, LIMITS)
    file.load(NOW, 10)
    file.append([event("one")], NOW)
    assert names(HistoryFile(path, LIMITS).load(NOW, 10).events) == ["one"]

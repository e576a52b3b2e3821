"""The mux: a stream of updates, and which sources were heard."""

from datetime import UTC, datetime, timedelta

import pytest

from pykubelet.kubelet.desired.sources import PodMux
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.updates import ANNOTATION_SEEN, PodUpdate, Source
from pykubelet.models import core_v1 as core
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.testing.clock import VirtualClock


def wanted(name: str) -> core.Pod:
    return core.Pod(metadata=ObjectMeta(name=name, uid=name))


def test_sources_are_ready_when_all_were_heard() -> None:
    updates: list[PodUpdate] = []
    mux = PodMux(sources=[Source.FILE, Source.HTTP], sink=updates.append, clock=VirtualClock())
    assert not mux.all_ready()
    mux.set(Source.HTTP, [])
    assert not mux.all_ready()
    mux.set(Source.FILE, [wanted("a")])
    assert mux.all_ready()
    assert [(update.op.value, update.source.value, len(update.pods)) for update in updates] == [
        ("ADD", "http", 0),
        ("ADD", "file", 1),
    ]


def test_without_sources_there_is_nothing_to_wait_for() -> None:
    assert PodMux(sources=[], sink=lambda update: None, clock=VirtualClock()).all_ready()


def test_sources_do_not_disturb_each_other() -> None:
    updates: list[PodUpdate] = []
    mux = PodMux(sources=[Source.FILE, Source.HTTP], sink=updates.append, clock=VirtualClock())
    mux.set(Source.FILE, [wanted("a")])
    mux.set(Source.HTTP, [wanted("b")])
    updates.clear()
    mux.set(Source.FILE, [])
    assert [(update.op.value, [pod.metadata.name for pod in update.pods]) for update in updates] == [("REMOVE", ["a"])]
    updates.clear()
    mux.set(Source.HTTP, [wanted("b")])
    assert updates == []


def test_new_pods_are_marked_with_the_wall_clock() -> None:
    updates: list[PodUpdate] = []
    mux = PodMux(sources=[Source.FILE], sink=updates.append, clock=VirtualClock(start=1_700_000_000.25))
    mux.set(Source.FILE, [wanted("a")])
    assert updates[0].pods[0].metadata.annotations[ANNOTATION_SEEN] == "2023-11-14T22:13:20.250000Z"


def test_unknown_source_raises() -> None:
    with pytest.raises(ValueError, match="api"):
        PodMux(sources=[Source.FILE], sink=lambda update: None, clock=VirtualClock()).set(Source.API, [])


def test_pods_of_the_sources_are_present_before_their_updates_are_handled() -> None:
    mux = PodMux(sources=[Source.API, Source.FILE], sink=lambda update: None, clock=VirtualClock())
    mux.set(Source.FILE, [wanted("f")])
    mux.set(Source.API, [wanted("a")], {PodUID("b"): None})
    assert mux.uids() == {"a", "b", "f"}
    mux.set(Source.API, [wanted("b")])
    assert mux.uids() == {"b", "f"}, "it can be read now, and may have no worker yet"


def test_pod_that_cannot_be_read_is_present_until_its_deletion_is_due() -> None:
    clock = VirtualClock(start=1_700_000_000.0)
    mux = PodMux(sources=[Source.API], sink=lambda update: None, clock=clock)
    due = datetime.fromtimestamp(clock.now(), UTC) + timedelta(seconds=30)
    mux.set(Source.API, [wanted("a")], {PodUID("a"): due, PodUID("b"): due, PodUID("c"): None})
    clock.jump_wall(29)
    assert mux.uids() == {"a", "b", "c"}
    clock.jump_wall(2)
    assert mux.uids() == {"a", "c"}, "the worker of the one that was read ends it"

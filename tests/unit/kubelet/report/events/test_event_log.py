"""The event log: objects of the API, bounds, watching, logging."""

import logging
import tracemalloc

import pytest

from pykubelet.kubelet.report.events import EventConfig, EventLog
from pykubelet.kubelet.types.ids import PodRef, PodUID
from pykubelet.kubelet.types.reports.events import NORMAL, WARNING, EventRecorder
from pykubelet.models import codec
from pykubelet.models import core_v1 as core
from pykubelet.models.scalars import time_from_unix
from pykubelet.testing.clock import VirtualClock
from tests.unit.kubelet.report.pods import NOW, REF, container, pod, sidecar


def event_log(clock: VirtualClock | None = None, config: EventConfig | None = None) -> EventLog:
    debug = core.EphemeralContainer(name="debug", image="busybox")
    value = pod(container("app"), init=[sidecar("proxy")], ephemeral=[debug])
    pods = {PodUID("uid-1"): value}
    return EventLog(
        clock=clock or VirtualClock(NOW), node_name="node-1", find_pod=pods.get, config=config or EventConfig()
    )


async def test_an_event_is_an_object_of_the_api() -> None:
    clock = VirtualClock(NOW)
    log: EventLog = event_log(clock)
    recorder: EventRecorder = log
    recorder.event(REF, NORMAL, "Started", "Started container app", container="app")
    await clock.advance(5)
    recorder.event(REF, NORMAL, "Started", "Started container app", container="app")
    (event,) = log.list()
    assert event.metadata.name.startswith("web.")
    assert event.metadata.namespace == "ns"
    assert event.involved_object == core.ObjectReference(
        api_version="v1", kind="Pod", namespace="ns", name="web", uid="uid-1", field_path="spec.containers{app}"
    )
    assert (event.api_version, event.kind, event.type, event.reason) == ("v1", "Event", "Normal", "Started")
    assert (event.count, event.message) == (2, "Started container app")
    assert (event.first_timestamp, event.last_timestamp) == (time_from_unix(NOW), time_from_unix(NOW + 5))
    assert event.source == core.EventSource(component="kubelet", host="node-1")
    assert (event.reporting_component, event.reporting_instance) == ("kubelet", "node-1")
    assert event.metadata.resource_version == str(log.table.version)
    assert event.metadata.creation_timestamp == time_from_unix(NOW)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", ""),
        ("app", "spec.containers{app}"),
        ("proxy", "spec.initContainers{proxy}"),
        ("debug", "spec.ephemeralContainers{debug}"),
        ("gone", "spec.containers{gone}"),
    ],
)
def test_field_path_names_the_list_of_the_container(name: str, expected: str) -> None:
    log = event_log()
    log.event(REF, NORMAL, "Started", "m", container=name)
    assert log.list()[0].involved_object.field_path == expected


def test_message_with_bytes_that_are_not_utf8_can_be_sent() -> None:
    log = event_log()
    log.event(PodRef("ns", "web", PodUID("uid")), WARNING, "Failed", "error SubPath `/a\udcff`")
    (event,) = log.list()
    assert event.message == "error SubPath `/a?`" and codec.encode(event)


def test_long_messages_are_cut_and_held_once() -> None:
    """The author of a pod decides how long its image names, paths and commands are."""
    log = event_log()
    tracemalloc.start()
    try:
        for number in range(50):
            each = PodRef("ns", f"web-{number}", PodUID(f"uid-{number}"))
            log.event(each, WARNING, "Failed", f"{number} " + "ä" * 1_000_000)
        assert tracemalloc.get_traced_memory()[0] < 4 << 20
    finally:
        tracemalloc.stop()
    assert [event.message for event in log.list()][:1] == ["0 " + "ä" * 6143]
    assert {len(event.message.encode()) for event in log.list()} <= {12 * 1024, 12 * 1024 - 1}


def test_events_of_an_unknown_pod_and_of_the_node_are_listed() -> None:
    log = event_log()
    log.event(PodRef("ns", "old", PodUID("uid-0")), NORMAL, "Killing", "m", container="app")
    log.event(None, WARNING, "ContainerRuntimeNotReady", "m")
    orphan, node = log.list()
    assert orphan.involved_object.field_path == "spec.containers{app}"
    assert (node.metadata.namespace, node.involved_object.kind, node.involved_object.name) == (
        "default",
        "Node",
        "node-1",
    )


def test_list_of_a_namespace_has_its_events_only() -> None:
    log = event_log()
    log.event(REF, NORMAL, "Started", "a")
    log.event(PodRef("other", "db", PodUID("u2")), NORMAL, "Started", "b")
    assert [e.message for e in log.list("ns")] == ["a"]
    assert [e.message for e in log.list("none")] == []
    assert len(log.list()) == 2


def test_the_log_is_bounded_and_repetitions_come_last() -> None:
    log = event_log(config=EventConfig(capacity=3, burst=100))
    for message in ("a", "b", "c", "a", "d"):
        log.event(REF, NORMAL, "Started", message)
    assert [(e.message, e.count) for e in log.list()] == [("c", 1), ("a", 2), ("d", 1)]


async def test_events_are_forgotten_after_a_week() -> None:
    clock = VirtualClock(NOW)
    log = event_log(clock)
    log.event(REF, NORMAL, "Started", "a")
    await clock.advance(3 * 86400)
    log.event(REF, NORMAL, "Started", "b")
    await clock.advance(4 * 86400 + 1)
    assert [e.message for e in log.list()] == ["b"]


async def test_watch_of_events_gets_the_last_state_of_each() -> None:
    log = event_log()
    with log.table.subscribe() as watch:
        log.event(REF, NORMAL, "Started", "a")
        log.event(REF, NORMAL, "Started", "b")
        log.event(REF, NORMAL, "Started", "a")
        assert [(c.value.message, c.value.count) for c in await watch.take()] == [("b", 1), ("a", 2)]


def test_events_are_logged_and_too_many_are_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    log = event_log(config=EventConfig(burst=1))
    with caplog.at_level(logging.INFO):
        log.event(REF, WARNING, "BackOff", "Back-off restarting failed container")
        log.event(REF, WARNING, "Failed", "one too many")
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.WARNING, "event")
    fields = record.__dict__
    assert (fields["pod"], fields["reason"]) == ("ns/web", "BackOff")
    assert [e.reason for e in log.list()] == ["BackOff"]


@pytest.mark.parametrize("jump", [7200.0, -7200.0])
async def test_events_after_the_wall_clock_jumped_are_kept_for_a_week(jump: float) -> None:
    clock = VirtualClock(NOW)
    log = event_log(clock)
    log.event(REF, NORMAL, "Started", "a")
    clock.jump_wall(jump)
    await clock.advance(3 * 86400)
    log.event(REF, NORMAL, "Started", "b")
    assert [e.message for e in log.list()] == ["a", "b"]
    await clock.advance(4 * 86400 + 1)
    assert [e.message for e in log.list()] == ["b"]


async def test_restored_events_are_listed_expire_in_time_and_are_known_as_old() -> None:
    earlier = event_log(VirtualClock(NOW - 6 * 86400))
    earlier.event(REF, NORMAL, "Started", "a")
    clock = VirtualClock(NOW)
    log = event_log(clock)
    log.restore(earlier.list())
    log.event(REF, NORMAL, "Started", "b")
    old, new = log.table.changes()
    assert [(c.value.message, log.is_restored(c)) for c in (old, new)] == [("a", True), ("b", False)]
    assert [int(c.value.metadata.resource_version) for c in (old, new)] == [old.version, new.version]
    log.restore(earlier.list())
    assert len(log.list()) == 2
    await clock.advance(86401)
    assert [e.message for e in log.list()] == ["b"]

"""Sending events to the API server."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from pykubelet.apiclient.resources import EVENTS
from pykubelet.base.concurrency.rate_limit import RateLimit
from pykubelet.kubelet.report.events import EventLog
from pykubelet.kubelet.report.events.event_sink import EventSink
from pykubelet.kubelet.report.events.event_types import EventConfig
from pykubelet.kubelet.types.ids import PodRef, PodUID
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.fake_api import Fault
from pykubelet.testing.wait import settle, until
from tests.unit.kubelet.apitools import Api, fake_api, running

POD = PodRef("ns", "web", PodUID("1"))
OTHER = PodRef("ns", "other", PodUID("2"))
PULLED = 'Successfully pulled image "web" in 10s (10s including waiting). Image size: 1 bytes.'


@dataclass
class Rig:
    api: Api
    log: EventLog

    def reported(self) -> dict[str, int]:
        return {each["reason"]: each["count"] for each in self.api.all("events")}

    def in_order(self, field: str = "reason") -> list[str]:
        """A field of the events in the order in which the API server got them."""
        return [each[field] for each in sorted(self.api.all("events"), key=_version)]


def _version(event: dict[str, Any]) -> int:
    return int(event["metadata"]["resourceVersion"])


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with fake_api() as api:
        log = EventLog(clock=api.clock, node_name="n", find_pod=lambda uid: None)
        log.event(None, "Normal", "Starting", "before the sink ran")
        sink = EventSink(client=api.client, table=log.table, limit=RateLimit(0, 1, clock=api.clock), clock=api.clock)
        async with running(sink.run()):
            yield Rig(api, log)


async def test_events_are_created_and_repetitions_counted(rig: Rig) -> None:
    rig.log.event(POD, "Normal", "Pulled", "m", container="c")
    await until(lambda: rig.reported() == {"Starting": 1, "Pulled": 1})
    rig.log.event(POD, "Normal", "Pulled", "m", container="c")
    await until(lambda: rig.reported()["Pulled"] == 2)
    (event,) = [each for each in rig.api.all("events") if each["reason"] == "Pulled"]
    assert event["metadata"]["namespace"] == "ns" and event["involvedObject"]["fieldPath"] == "spec.containers{c}"
    assert event["source"] == {"component": "kubelet", "host": "n"}
    assert "annotations" not in event["metadata"]


async def test_annotations_of_an_event_are_sent(rig: Rig) -> None:
    """Autoscalers and upstream's eviction specs read them."""
    rig.log.event(POD, "Warning", "Evicted", "low on memory", annotations={"starved_resource": "memory"})
    await until(lambda: "Evicted" in rig.reported())
    (event,) = [each for each in rig.api.all("events") if each["reason"] == "Evicted"]
    assert event["metadata"]["annotations"] == {"starved_resource": "memory"}


async def test_event_expired_at_the_api_server_is_recreated(rig: Rig) -> None:
    await until(lambda: rig.reported() == {"Starting": 1})
    (event,) = rig.api.all("events")
    await rig.api.client.delete(EVENTS.at("default", event["metadata"]["name"]))
    rig.log.event(None, "Normal", "Starting", "before the sink ran")
    await until(lambda: rig.reported() == {"Starting": 2})


async def test_events_wait_while_the_api_server_is_unavailable(rig: Rig) -> None:
    await until(lambda: rig.reported() == {"Starting": 1})
    await rig.api.fake.go_away()
    for number in range(3):
        rig.log.event(POD, "Normal", f"R{number}", "m")
    rig.log.event(POD, "Normal", "R0", "m")
    await settle()
    await rig.api.fake.serve_again()
    await until(lambda: rig.reported() == {"Starting": 1, "R0": 2, "R1": 1, "R2": 1})


def _warned(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """The warnings of the sink; the event log warns of each event with the type Warning."""
    return [each for each in caplog.records if each.levelno == logging.WARNING and each.name.endswith("event_sink")]


async def test_rejected_event_does_not_block_others(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    await until(lambda: rig.reported() == {"Starting": 1})
    rig.api.fake.faults = [Fault("POST", status=403)]
    rig.log.event(POD, "Normal", "Refused", "m")
    rig.log.event(POD, "Normal", "Good", "m")
    await until(lambda: "Good" in rig.reported())
    assert "Refused" not in rig.reported()
    (record,) = _warned(caplog)
    assert record.getMessage() == "event rejected by the API server"


@asynccontextmanager
async def still(*, rate: float = 0, capacity: int = 1000) -> AsyncIterator[tuple[Rig, VirtualClock]]:
    """Yield a sink whose clock goes on only when the test says so."""
    async with fake_api() as api:
        clock, config = VirtualClock(), EventConfig(capacity=capacity)
        log = EventLog(clock=api.clock, node_name="n", find_pod=lambda uid: None, config=config)
        sink = EventSink(client=api.client, table=log.table, limit=RateLimit(rate, 1, clock=clock), clock=clock)
        async with running(sink.run()):
            await clock.settle()
            yield Rig(api, log), clock


async def test_warning_is_sent_at_once_after_the_earlier_events_of_its_pod() -> None:
    """A user finds the event of a failure at once; events of other starts still wait until those pods have started."""
    async with still() as (rig, clock):
        rig.log.event(OTHER, "Normal", "Created", "of the other pod")
        rig.log.event(POD, "Normal", "Pulling", "m", container="c")
        rig.log.event(POD, "Warning", "Failed", "no such image", container="c")
        await until(lambda: "Failed" in rig.reported())
        await settle()
        assert rig.in_order() == ["Pulling", "Failed"]
        rig.log.event(POD, "Warning", "Failed", "no such image", container="c")
        await until(lambda: rig.reported()["Failed"] == 2)
        await clock.advance(1)
        await until(lambda: rig.reported() == {"Pulling": 1, "Failed": 2, "Created": 1})


async def test_end_of_a_pull_is_sent_at_once() -> None:
    """Upstream's specs and others who have waited for a pull read its event when they see the pod running."""
    async with still() as (rig, clock):
        rig.log.event(OTHER, "Normal", "Pulled", 'Container image "web" already present on machine')
        rig.log.event(POD, "Normal", "Pulled", PULLED)
        rig.log.event(POD, "Normal", "Created", "m")
        await until(lambda: bool(rig.reported()))
        await settle()
        assert rig.in_order("message") == [PULLED]
        await clock.advance(1)
        await until(lambda: len(rig.api.all("events")) == 3)


async def test_warning_goes_before_others_whose_time_has_come() -> None:
    async with still() as (rig, clock):
        rig.api.fake.faults = [Fault("POST", status=503)]
        for number in range(3):
            rig.log.event(OTHER, "Normal", f"R{number}", "m")
        await clock.advance(0.6)
        await until(lambda: any(line.startswith("POST") for line in rig.api.fake.requests))
        await settle()
        rig.api.fake.faults = []
        rig.log.event(POD, "Warning", "Failed", "m")
        await clock.advance(10)
        await until(lambda: len(rig.reported()) == 4)
        assert rig.in_order() == ["R0", "Failed", "R1", "R2"]


async def test_event_that_the_server_fails_to_take_does_not_block_others(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """An admission webhook of one namespace may be down; like the Go kubelet, the sink gives such an event up."""
    rig.api.fake.faults = [Fault("POST .*/namespaces/ns/", status=500, message="failed calling webhook", times=10**6)]
    rig.log.event(POD, "Warning", "Failed", "m")
    rig.log.event(None, "Warning", "Rebooted", "m")
    await until(lambda: rig.reported() == {"Starting": 1, "Rebooted": 1})
    assert sum("/namespaces/ns/" in each for each in rig.api.fake.requests) == 3
    (record,) = _warned(caplog)
    assert record.getMessage() == "event given up: the API server fails at it"
    assert record.__dict__["attempts"] == 3 and "failed calling webhook" in record.__dict__["error"]


async def test_events_of_a_storm_wait_within_the_bounds_of_the_event_log() -> None:
    """More events than the API server takes must not fill the memory; the oldest are dropped, as before the sink."""
    async with still(rate=1, capacity=3) as (rig, clock):
        for second in range(12):
            for number in range(3):
                pod = PodRef("ns", f"p{second}-{number}", PodUID(f"{second}-{number}"))
                rig.log.event(pod, "Warning", "Failed", "m")
            await clock.advance(1)
            await until(lambda second=second: len(rig.api.all("events")) > second)  # type: ignore[misc]
        before = len(rig.api.all("events"))
    # What was still waiting has been sent at the end.
    objects = [each["involvedObject"]["name"] for each in rig.api.all("events")]
    assert len(objects) <= before + 4 and "p11-2" in objects


async def test_event_rejected_while_the_agent_stops_does_not_keep_others() -> None:
    async with still() as (rig, _):
        rig.api.fake.faults = [Fault("POST .*/namespaces/ns/", status=403)]
        rig.log.event(POD, "Normal", "Killing", "m")
        rig.log.event(None, "Normal", "Shutdown", "m")
    assert rig.reported() == {"Shutdown": 1}


async def test_pending_events_are_sent_when_the_agent_stops() -> None:
    async with fake_api() as api:
        clock = VirtualClock()
        log = EventLog(clock=api.clock, node_name="n", find_pod=lambda uid: None)
        sink = EventSink(client=api.client, table=log.table, limit=RateLimit(0, 1, clock=clock), clock=clock)
        rig = Rig(api, log)
        async with running(sink.run()):
            await clock.settle()
            log.event(POD, "Normal", "Pulled", "m")
            log.event(POD, "Normal", "Created", "m")
            await settle()
            assert rig.reported() == {}
            await clock.advance(1)
            await until(lambda: len(rig.reported()) == 2)
            log.event(POD, "Normal", "Started", "m")
            await settle()
            assert len(rig.reported()) == 2
        assert rig.reported() == {"Pulled": 1, "Created": 1, "Started": 1}


async def test_events_of_an_earlier_agent_are_not_sent_again() -> None:
    async with fake_api() as api:
        earlier = EventLog(clock=api.clock, node_name="n", find_pod=lambda uid: None)
        earlier.event(POD, "Normal", "Old", "m")
        log = EventLog(clock=api.clock, node_name="n", find_pod=lambda uid: None)
        log.restore(earlier.list())
        log.event(POD, "Normal", "New", "m")
        sink = EventSink(
            client=api.client,
            table=log.table,
            limit=RateLimit(0, 1, clock=api.clock),
            clock=api.clock,
            is_old=log.is_restored,
        )
        async with running(sink.run()):
            rig = Rig(api, log)
            await until(lambda: rig.reported() == {"New": 1})
            log.event(POD, "Normal", "Newer", "m")
            await until(lambda: rig.reported() == {"New": 1, "Newer": 1})

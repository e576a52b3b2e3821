"""The reflector with a scripted API server and clock: how long it watches, and after which ends it waits or lists."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import cast

import pytest

from pykubelet.apiclient import ApiClient, ObjectSelector, Query, Reflector
from pykubelet.apiclient.held_objects import Key
from pykubelet.apiclient.resources import CONFIG_MAPS
from pykubelet.apiclient.watch import Listing, WatchEvent, WatchType
from pykubelet.base.errors import Permanent, Transient
from pykubelet.models.core_v1 import ConfigMap
from pykubelet.models.meta_v1 import ObjectMeta

Step = WatchEvent[ConfigMap] | Exception | float
"""A step of a watch: an event, an error that ends it, or seconds that pass."""


def bookmark(version: str) -> WatchEvent[ConfigMap]:
    return WatchEvent(WatchType.BOOKMARK, ObjectMeta(resource_version=version), None)


def added(name: str, version: str) -> WatchEvent[ConfigMap]:
    meta = ObjectMeta(name=name, namespace="default", resource_version=version)
    return WatchEvent(WatchType.ADDED, meta, ConfigMap(metadata=meta))


UNREADABLE = (Transient("the event is too long"),)
BUSY = (Transient("busy", retry_after=1),)
QUICK = (bookmark("2"),)
SILENT_QUICK: tuple[Step, ...] = ()
LONG = (1.0,)


class SteppedClock:
    """A clock that moves only when told to; sleeps are recorded."""

    def __init__(self) -> None:
        self.time = 0.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)

    def call_later(self, seconds: float, function: Callable[[], object]) -> asyncio.Handle:
        self.slept.append(seconds)
        return asyncio.get_running_loop().call_soon(function)


class Server:
    """Answers lists (an exception, or a list at versions 100, 200, …) and watches; the end of the script is the end of
    the reflector."""

    def __init__(self, watches: Sequence[tuple[Step, ...]], *failed_lists: Exception, rand: float = 0.0) -> None:
        self.watches, self.failed_lists = list(watches), list(failed_lists)
        self.clock = SteppedClock()
        self.lists = 0
        self.watched: list[str] = []
        self.durations: list[float] = []
        self.delivered: list[set[str]] = []
        self.reflector = Reflector(
            client=cast(ApiClient, self),
            query=Query(CONFIG_MAPS.all("default"), ObjectSelector()),
            deliver=self.deliver,
            clock=self.clock,
            rand=lambda: rand,
        )

    def deliver(self, items: Mapping[Key, ConfigMap]) -> None:
        self.delivered.append({name for _, name in items})

    async def list(self, *_: object) -> Listing[ConfigMap]:
        if self.failed_lists:
            raise self.failed_lists.pop(0)
        self.lists += 1
        return Listing((), str(100 * self.lists))

    async def watch(self, _: object, __: object, version: str, seconds: float) -> AsyncIterator[WatchEvent[ConfigMap]]:
        self.watched.append(version)
        self.durations.append(seconds)
        if not self.watches:
            self.reflector.stop()
            yield bookmark("")
            return
        for step in self.watches.pop(0):
            match step:
                case Exception():
                    raise step
                case WatchEvent():
                    yield step
                case seconds:
                    self.clock.time += seconds

    async def run(self) -> "Server":
        async with asyncio.timeout(60):
            await self.reflector.run()
        return self


@pytest.mark.parametrize(("rand", "seconds"), [(0.0, 300.0), (0.5, 450.0), (1.0, 600.0)])
async def test_watch_takes_five_to_ten_minutes_at_random(rand: float, seconds: float) -> None:
    assert (await Server([], rand=rand).run()).durations == [seconds]


@pytest.mark.parametrize(
    ("watches", "versions"),
    [
        ([UNREADABLE] * 5, ["100"] * 5 + ["200"]),
        ([UNREADABLE] * 10, ["100"] * 5 + ["200"] * 5 + ["300"]),
        # None of these is an event that cannot be read, so the count of watches without an event starts again.
        ([BUSY, *[UNREADABLE] * 5], ["100"] * 6 + ["200"]),
        ([BUSY] * 12, ["100"] * 13),
        ([LONG, *[UNREADABLE] * 5], ["100"] * 6 + ["200"]),
        ([LONG] * 12, ["100"] * 13),
        ([(bookmark("101"), *UNREADABLE), *[UNREADABLE] * 5], ["100"] + ["101"] * 5 + ["200"]),
    ],
)
async def test_five_watches_without_an_event_are_followed_by_a_list(
    watches: list[tuple[Step, ...]], versions: list[str]
) -> None:
    assert (await Server(watches).run()).watched == versions


@pytest.mark.parametrize(
    ("watches", "delays"),
    [
        ([LONG] * 3, 0),
        ([SILENT_QUICK], 1),
        ([LONG, SILENT_QUICK, LONG], 1),
        ([QUICK], 0),  # happens, for example when the server restarts
        ([QUICK] * 4, 3),
        ([QUICK, LONG, QUICK, LONG, QUICK], 0),
        ([(bookmark("2"), 1.0)] * 3, 0),
        ([(bookmark("2"), 0.9)] * 3, 2),
        ([UNREADABLE], 1),
    ],
)
async def test_only_watches_that_end_within_a_second_are_backed_off(
    watches: list[tuple[Step, ...]], delays: int
) -> None:
    server = await Server(watches).run()
    assert len(server.clock.slept) == delays
    assert all(delay >= 0.8 for delay in server.clock.slept)


async def test_events_after_the_stop_are_not_delivered() -> None:
    server = Server([(added("a", "101"), added("b", "102"))])
    deliver = server.deliver

    def until_a(items: Mapping[Key, ConfigMap]) -> None:
        deliver(items)
        if items:
            server.reflector.stop()

    server.reflector._deliver = until_a
    await server.run()
    assert server.delivered == [set(), {"a"}]


async def test_defect_in_the_receiver_leads_to_a_new_list_after_a_delay() -> None:
    server = Server([(added("a", "101"),)])
    deliver = server.deliver

    def fail_once(items: Mapping[Key, ConfigMap]) -> None:
        deliver(items)
        if items:
            raise ValueError("a defect")

    server.reflector._deliver = fail_once
    await server.run()
    assert server.watched == ["100", "200"]
    assert len(server.clock.slept) == 1


async def test_event_without_a_version_keeps_the_last_one() -> None:
    assert (await Server([(bookmark("101"), bookmark(""), 1.0)]).run()).watched == ["100", "101"]


async def test_failed_lists_are_logged_once_until_one_succeeds(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    await Server([], Transient("away"), Permanent("forbidden"), Transient("away")).run()
    assert [record.message for record in caplog.records] == ["list or watch failed; retrying"]


async def test_fault_and_listed_tell_whether_a_list_has_succeeded() -> None:
    error = Permanent("forbidden")
    server = Server([], error)
    seen: list[object] = []

    async def sleep(seconds: float) -> None:
        seen.append((server.reflector.listed, server.reflector.fault))

    server.clock.sleep = sleep  # type: ignore[method-assign]
    await server.run()
    assert [*seen, (server.reflector.listed, server.reflector.fault)] == [(False, error), (True, None)]


async def test_undecodable_object_of_an_event_is_logged_by_name(caplog: pytest.LogCaptureFixture) -> None:
    meta = ObjectMeta(name="a", namespace="default", resource_version="101")
    await Server([(WatchEvent(WatchType.MODIFIED, meta, None, "no map"), 1.0)]).run()
    reported = [(record.message, record.__dict__["object"], record.__dict__["error"]) for record in caplog.records]
    assert reported == [("undecodable object skipped", "default/a", "no map")]

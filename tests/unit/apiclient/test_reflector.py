"""The reflector, with every kind of end of a watch."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from pykubelet.apiclient import ApiClient, ObjectSelector, Query, Reflector
from pykubelet.apiclient.held_objects import Key
from pykubelet.apiclient.resources import CONFIG_MAPS
from pykubelet.base.clock import SystemClock
from pykubelet.models.core_v1 import ConfigMap
from pykubelet.testing.fake_api import FakeApi, Fault
from pykubelet.testing.fake_api.store import Place
from pykubelet.testing.wait import until
from tests.unit.apiclient.clocks import NotedClock, QuickClock

PLACE = Place("/api/v1", "configmaps", "default")


class ReflectorRecorder:
    """Records what a reflector delivers."""

    def __init__(self, client: ApiClient) -> None:
        self.seen: list[dict[str, dict[str, str]]] = []
        self._news = asyncio.Event()
        query = Query(CONFIG_MAPS.all("default"), ObjectSelector())
        self.reflector = Reflector(client=client, query=query, deliver=self._deliver, clock=QuickClock())

    def _deliver(self, items: Mapping[Key, ConfigMap]) -> None:
        self.seen.append({name: dict(each.data) for (_, name), each in items.items()})
        self._news.set()

    async def until(self, holds: Callable[[dict[str, dict[str, str]]], bool]) -> None:
        async with asyncio.timeout(10):
            while not self.seen or not holds(self.seen[-1]):
                self._news.clear()
                await self._news.wait()


@pytest.fixture
async def fake() -> AsyncIterator[FakeApi]:
    async with FakeApi() as api:
        yield api


@pytest.fixture
async def followed(fake: FakeApi) -> AsyncIterator[ReflectorRecorder]:
    client = ApiClient(fake.config, SystemClock())
    made = ReflectorRecorder(client)
    task = asyncio.create_task(made.reflector.run(), name="reflector")
    yield made
    task.cancel()
    await asyncio.wait({task})
    await client.close()


def put(fake: FakeApi, name: str, value: str) -> None:
    where = Place(PLACE.prefix, PLACE.plural, PLACE.namespace, name)
    body = {"metadata": {"name": name}, "data": {"v": value}}
    if any(each["metadata"]["name"] == name for each in fake.store.list(PLACE, lambda _: True)):
        fake.store.replace(where, body)
    else:
        fake.store.create(PLACE, body)


async def test_first_list_is_delivered_even_if_empty(fake: FakeApi, followed: ReflectorRecorder) -> None:
    await followed.until(lambda items: items == {})
    put(fake, "a", "1")
    await followed.until(lambda items: items == {"a": {"v": "1"}})
    put(fake, "a", "2")
    await followed.until(lambda items: items == {"a": {"v": "2"}})
    fake.store.delete(Place(PLACE.prefix, PLACE.plural, "default", "a"), "", None)
    await followed.until(lambda items: items == {})
    assert followed.reflector.listed and followed.reflector.fault is None


async def test_expired_version_leads_to_a_new_list(fake: FakeApi, followed: ReflectorRecorder) -> None:
    put(fake, "a", "1")
    await followed.until(lambda items: "a" in items)
    await fake.go_away()
    put(fake, "b", "1")
    fake.store.compact()
    await fake.serve_again()
    await followed.until(lambda items: {"a", "b"} <= items.keys())
    assert fake.count("GET /api/v1/namespaces/default/configmaps?limit") >= 2


async def test_a_watch_is_resumed_without_a_list(fake: FakeApi, followed: ReflectorRecorder) -> None:
    await followed.until(lambda items: items == {})
    await fake.go_away()
    put(fake, "a", "1")
    await fake.serve_again()
    await followed.until(lambda items: "a" in items)
    assert fake.count("GET /api/v1/namespaces/default/configmaps?limit") == 1


async def test_bookmarks_advance_the_version(fake: FakeApi, followed: ReflectorRecorder) -> None:
    await followed.until(lambda items: items == {})
    for number in range(5):  # changes of other objects: the watch gets only bookmarks for them
        fake.store.create(Place("/api/v1", "secrets", "default"), {"metadata": {"name": f"s{number}"}})
    newest = fake.store.version
    await until(lambda: int(followed.reflector._version) >= newest)


async def test_watch_broken_in_the_middle_of_an_event_loses_none(fake: FakeApi, followed: ReflectorRecorder) -> None:
    await followed.until(lambda items: items == {})
    await fake.go_away()
    fake.faults = [Fault("watch=true", truncate=True)]
    await fake.serve_again()
    put(fake, "a", "1")
    put(fake, "b", "1")
    await followed.until(lambda items: {"a", "b"} <= items.keys())
    assert not fake.faults[0].times


async def test_errors_are_retried(fake: FakeApi, followed: ReflectorRecorder) -> None:
    await followed.until(lambda items: items == {})
    await fake.go_away()
    fake.faults = [Fault("watch=true", status=500, times=2), Fault("watch=true", status=429, retry_after=1)]
    await fake.serve_again()
    put(fake, "a", "1")
    await followed.until(lambda items: "a" in items)


async def test_delays_double_with_jitter_up_to_a_limit(fake: FakeApi) -> None:
    """Delays are 0.8 s up to twice that at random, doubling to 30 s up to twice that."""
    clock = NotedClock()
    client = ApiClient(fake.config, SystemClock())
    fake.faults = [Fault("configmaps", status=404, times=9)]
    reflector = Reflector(
        client=client,
        query=Query(CONFIG_MAPS.all("default"), ObjectSelector()),
        deliver=lambda _: reflector.stop(),
        clock=clock,
    )
    async with asyncio.timeout(10):
        await reflector.run()
    bounds = [min(0.8 * 2**step, 30.0) for step in range(9)]
    assert [least <= delay <= 2 * least for delay, least in zip(clock.slept, bounds, strict=True)] == [True] * 9
    assert any(delay > 1.01 * least for delay, least in zip(clock.slept, bounds, strict=True))
    await client.close()


async def test_undecodable_object_keeps_its_last_state(fake: FakeApi, followed: ReflectorRecorder) -> None:
    put(fake, "a", "1")
    await followed.until(lambda items: "a" in items)
    await fake.go_away()
    fake.faults = [Fault("watch=true", corrupt=True)]
    await fake.serve_again()
    put(fake, "a", "2")
    put(fake, "a", "3")
    await until(lambda: int(followed.reflector._version) >= fake.store.version)
    assert followed.seen[-1] == {"a": {"v": "1"}}
    await fake.go_away()
    await fake.serve_again()
    put(fake, "b", "1")
    await followed.until(lambda items: "b" in items)
    assert followed.seen[-1]["a"] == {"v": "1"}


async def test_watch_with_events_is_soon_followed_by_another(fake: FakeApi, followed: ReflectorRecorder) -> None:
    """The delay grows only while no events arrive, however often the watch breaks."""
    backoff = followed.reflector._backoff
    await followed.until(lambda items: items == {})
    for number in range(6):
        await fake.go_away()
        put(fake, "a", str(number))
        await fake.serve_again()
        await followed.until({"a": {"v": str(number)}}.__eq__)
        assert backoff.delay("") == 0

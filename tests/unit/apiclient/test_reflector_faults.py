"""The reflector with an API server that is busy, sends undecodable objects or ends watches at once."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import pytest
from msgspec.structs import replace

from pykubelet.apiclient import ApiClient, ObjectSelector, Query, Reflector, held_objects
from pykubelet.apiclient import reflector as reflector_module
from pykubelet.apiclient import watch as module
from pykubelet.apiclient.errors import Expired
from pykubelet.apiclient.held_objects import Key
from pykubelet.apiclient.resources import CONFIG_MAPS
from pykubelet.apiclient.watch import Lines, Listing, UnreadObject, WatchEvent, WatchType
from pykubelet.base.errors import Transient
from pykubelet.models.core_v1 import ConfigMap
from pykubelet.models.meta_v1 import ObjectMeta
from tests.unit.apiclient.clocks import NotedClock

META = ObjectMeta(name="a", namespace="default", resource_version="2")
MAP = ConfigMap(metadata=META, data={"v": "1"})


class ScriptedClient:
    """A client with scripted answers; after the last watch it stops the reflector."""

    def __init__(
        self, lists: list[Listing[ConfigMap] | Exception], watches: list[tuple[Any, ...]], fields: str = ""
    ) -> None:
        self.lists, self.watches = lists, watches
        self.delivered: list[dict[str, str]] = []
        self.clock = NotedClock()
        query = Query(CONFIG_MAPS.all("default"), ObjectSelector(fields=fields))
        self.reflector = Reflector(client=cast(ApiClient, self), query=query, deliver=self._deliver, clock=self.clock)

    def _deliver(self, items: Mapping[Key, ConfigMap]) -> None:
        self.delivered.append({name: each.data["v"] for (_, name), each in items.items()})

    async def list(self, *_: object) -> Listing[ConfigMap]:
        answer = self.lists.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def watch(self, *_: object) -> AsyncIterator[WatchEvent[ConfigMap]]:
        if not self.watches:
            self.reflector.stop()
            return
        for each in self.watches.pop(0):
            if isinstance(each, Exception):
                raise each
            yield each

    async def run(self) -> None:
        async with asyncio.timeout(10):
            await self.reflector.run()


async def test_answers_with_objects_that_were_not_asked_for_change_nothing() -> None:
    other = ConfigMap(metadata=ObjectMeta(name="b", namespace="default", resource_version="3"), data={"v": "2"})
    event = WatchEvent(WatchType.ADDED, other.metadata, other)
    own = Listing((MAP,), "2")
    api = ScriptedClient([Listing((other,), "3"), own, own], [(event,), (Expired("x"),)], fields="metadata.name=a")
    await api.run()
    assert api.delivered == [{"a": "1"}, {"a": "1"}]


async def test_retry_after_of_a_busy_server_is_respected() -> None:
    api = ScriptedClient(
        [Transient("busy", retry_after=40), Listing((MAP,), "2")], [(Transient("busy", retry_after=50),)]
    )
    await api.run()
    assert [40 <= api.clock.slept[0] < 50, 50 <= api.clock.slept[1] < 60] == [True, True]
    assert api.delivered == [{"a": "1"}]


async def test_object_undecodable_in_a_new_list_keeps_its_last_state() -> None:
    unreadable: Listing[ConfigMap] = Listing(
        (), "3", (UnreadObject(META, "no map"), UnreadObject(ObjectMeta(name="b"), "no map"))
    )
    api = ScriptedClient([Listing((MAP,), "2"), unreadable], [(Expired("too old"),)])
    await api.run()
    assert api.delivered == [{"a": "1"}, {"a": "1"}]


async def test_watch_that_adds_more_objects_than_a_list_may_have_is_listed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(held_objects, "MAX_OBJECTS", 3)
    many = [WatchEvent[ConfigMap](WatchType.ADDED, replace(META, name=f"u{n}"), None, "no map") for n in range(9)]
    listing = Listing((MAP,), "2")
    api = ScriptedClient([listing, Transient("list: too many"), listing], [tuple(many), (many[0], many[0])])
    await api.run()
    assert api.lists == [] and api.watches == []
    assert set(api.reflector.unread) == {("default", "u0")}
    assert api.delivered == [{"a": "1"}] * 6, "the last state is kept"


async def test_object_left_out_is_logged_once_and_keeps_its_last_state(caplog: pytest.LogCaptureFixture) -> None:
    later = replace(META, resource_version="3")
    large: Listing[ConfigMap] = Listing((), "3", (UnreadObject(later, "it is too large", 5_000_000),))
    api = ScriptedClient([Listing((MAP,), "2"), large, large], [(Expired("too old"),), (Expired("too old"),)])
    await api.run()
    assert api.delivered == [{"a": "1"}] * 3
    assert set(api.reflector.unread) == {("default", "a")}
    logged = [each.__dict__ for each in caplog.records if each.message == "large object left out"]
    assert [(each["object"], each["bytes"], each["error"]) for each in logged] == [
        ("default/a", 5_000_000, "it is too large")
    ]


@pytest.mark.parametrize(("apart", "lists"), [(0.0, 2), (3600.0, 1)])
async def test_objects_are_listed_again_when_more_of_them_fit(
    apart: float, lists: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflector_module, "_LISTS_APART", apart)
    other = ConfigMap(metadata=ObjectMeta(name="b", namespace="default"), data={"v": "2"})
    large = Listing((MAP,), "2", (UnreadObject(other.metadata, "it is too large", 5_000_000),), (1000,))
    removed = WatchEvent(WatchType.DELETED, META, MAP)
    api = ScriptedClient([large, Listing((other,), "3")], [(removed,), ()])
    await api.run()
    assert api.delivered == [{"a": "1"}, {}, {"b": "2"}][: 1 + lists]


@pytest.mark.parametrize(("events", "free"), [((), 0), ((WatchEvent(WatchType.BOOKMARK, META, None),), 1)])
async def test_watches_that_end_at_once_are_backed_off(events: tuple[object, ...], free: int) -> None:
    api = ScriptedClient([Listing((MAP,), "2")] * 3, [events] * 4)
    await api.run()
    assert len(api.clock.slept) >= 4 - free
    assert all(delay >= 0.8 for delay in api.clock.slept)


def test_too_long_line_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_EVENT", 10)
    lines = Lines()
    assert list(lines.feed(b"12345\n67890")) == [b"12345"]
    assert list(lines.feed(b"12345")) == []
    with pytest.raises(Transient, match="too long"):
        list(lines.feed(b"6"))


async def test_list_whose_pages_expire_again_and_again_is_a_fault() -> None:
    # A list of many small pages may take longer than the API server keeps its version.
    api = ScriptedClient([Expired("the token is too old"), Expired("the token is too old"), Listing((MAP,), "2")], [()])
    faults: list[object] = []
    read = api.list

    async def noted(*given: Any) -> Listing[ConfigMap]:
        faults.append(api.reflector.fault)
        return await read(*given)

    api.list = noted  # type: ignore[method-assign]
    await api.run()
    assert [each is not None for each in faults] == [False, True, True]

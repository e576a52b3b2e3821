"""Contract of watches: paged lists, watches from any version, bookmarks, expired versions."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from pykubelet.apiclient import ApiClient, Expired, ObjectSelector, PatchKind, Query, Reflector, WatchType
from pykubelet.apiclient.resources import CONFIG_MAPS, Resource, Target
from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import NotFound
from pykubelet.models.core_v1 import ConfigMap
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.models.scalars import KubeStruct, RawObject
from pykubelet.testing.wait import until_answer
from tests.contract.api.build import config_map
from tests.contract.api.server import Server

_FEW = ObjectSelector(fields="metadata.name=few")
_THINGS = "things.example.com"


class CustomResourceDefinition(KubeStruct, frozen=True, kw_only=True):
    """The fields of a CustomResourceDefinition that the test uses."""

    api_version: str
    kind: str
    metadata: ObjectMeta
    spec: RawObject


class Thing(ConfigMap, frozen=True, kw_only=True):
    """An object of a kind that the test defines."""


_DEFINITIONS = Resource("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", CustomResourceDefinition)


async def test_a_long_list_is_read_page_by_page(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {f"sheet-{number}" for number in range(5)}
    for name in names:
        await server.client.create(CONFIG_MAPS.all("kube-public"), config_map(name))
    monkeypatch.setattr("pykubelet.apiclient.client._PAGE", 2)
    server.requests.clear()
    listed = await server.client.list(CONFIG_MAPS.all("kube-public"))
    found = {each.metadata.name for each in listed.items}
    assert names <= found and len(found) == len(listed.items)
    assert len(server.requests) == (len(found) + 1) // 2
    for name in names:
        await server.client.delete(CONFIG_MAPS.at("kube-public", name))


async def test_watch_resumes_where_another_ended(server: Server) -> None:
    client = server.client
    version = (await client.list(CONFIG_MAPS.all("default"), _FEW)).resource_version
    made = await client.create(CONFIG_MAPS.all("default"), config_map("few", a="1"))
    await client.create(CONFIG_MAPS.all("default"), config_map("many", a="1"))
    await client.patch(CONFIG_MAPS.at("default", "few"), {"data": {"a": "2"}}, PatchKind.MERGE)
    await client.delete(CONFIG_MAPS.at("default", "few"))
    # A watch from the list's version yields all events, one from the first event's version all later ones.
    reported = await _reported(client, version)
    assert [kind for kind, _, _ in reported] == ["ADDED", "MODIFIED", "DELETED"]
    assert [data for _, data, _ in reported] == [{"a": "1"}, {"a": "2"}, {"a": "2"}]
    versions = [int(each) for _, _, each in reported]
    assert versions[0] == int(made.metadata.resource_version) and versions == sorted(set(versions))
    assert await _reported(client, made.metadata.resource_version) == reported[1:]
    await client.delete(CONFIG_MAPS.at("default", "many"))


async def _reported(client: ApiClient, version: str) -> list[tuple[str, dict[str, str], str]]:
    """Events of the ConfigMap ``few`` after a version until it is deleted."""
    reported = []
    async for event in client.watch(CONFIG_MAPS.all("default"), _FEW, version, 20):
        if event.object is not None:
            reported.append((str(event.type), dict(event.object.data), event.meta.resource_version))
        if event.type is WatchType.DELETED:
            return reported
    raise AssertionError(f"the watch ended after {reported}")


@asynccontextmanager
async def young(client: ApiClient) -> AsyncIterator[Target[Thing]]:
    """A collection whose older versions are unknown to the API server."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    spec: RawObject = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    definition = CustomResourceDefinition(
        api_version="apiextensions.k8s.io/v1",
        kind="CustomResourceDefinition",
        metadata=ObjectMeta(name=_THINGS),
        spec=spec,
    )
    await client.create(_DEFINITIONS.all(), definition)
    things = Resource("/apis/example.com/v1", "things", Thing).all("default")

    async def served() -> bool:
        with suppress(NotFound):
            await client.list(things)
            return True
        return False

    try:
        await until_answer(served, 20)
        yield things
    finally:
        await client.delete(_DEFINITIONS.at("", _THINGS))


async def test_expired_version_leads_to_a_new_list(server: Server) -> None:
    listed = asyncio.Event()
    async with young(server.client) as things:
        with pytest.raises(Expired):
            async for _ in server.client.watch(things, ObjectSelector(), "1", 20):
                pass
        reflector = Reflector(
            client=server.client,
            query=Query(things, ObjectSelector()),
            deliver=lambda _: listed.set(),
            clock=SystemClock(),
            first_delay=0.05,
        )
        reflector._version = "1"
        task = asyncio.create_task(reflector.run(), name="reflector")
        async with asyncio.timeout(20):
            await listed.wait()
        assert reflector.listed and reflector.fault is None
        task.cancel()
        await asyncio.wait({task})


async def test_idle_watch_sends_bookmarks(server: Server) -> None:
    """Bookmarks advance the version; the real server sends them once a minute and shortly before the end of a watch."""
    client = server.client
    listed = await client.list(CONFIG_MAPS.all("default"), _FEW)
    seen: list[int] = []

    async def follow() -> None:
        async for event in client.watch(CONFIG_MAPS.all("default"), _FEW, listed.resource_version, 6):
            assert event.type is WatchType.BOOKMARK
            seen.append(int(event.meta.resource_version))

    watch = asyncio.create_task(follow(), name="watch")
    others = [f"other-{number}" for number in range(5)]
    made = [await client.create(CONFIG_MAPS.all("kube-public"), config_map(name)) for name in others]
    await watch
    assert seen and seen == sorted(seen) and seen[-1] >= int(made[0].metadata.resource_version)
    for name in others:
        await client.delete(CONFIG_MAPS.at("kube-public", name))

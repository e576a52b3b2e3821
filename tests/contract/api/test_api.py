"""Contract of an API server: the behavior that the agent relies on."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import pytest

from pykubelet.apiclient import AlreadyExists, ApiClient, ObjectSelector, PatchKind, Query, Reflector, WatchType
from pykubelet.apiclient.held_objects import Key
from pykubelet.apiclient.resources import CONFIG_MAPS, NODES, PODS, SECRETS, SERVICE_ACCOUNTS
from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import Conflict, Invalid, NotFound
from pykubelet.models.authentication_v1 import BoundObjectReference, TokenRequest, TokenRequestSpec
from pykubelet.models.core_v1 import ConfigMap, Node, Secret, ServiceAccount
from pykubelet.models.meta_v1 import ObjectMeta
from tests.contract.api.build import bound, config_map
from tests.contract.api.server import Server

Until = Callable[[Callable[[ConfigMap | None], bool]], Awaitable[None]]


async def test_objects_are_made_read_changed_and_deleted(server: Server) -> None:
    client, target = server.client, CONFIG_MAPS.at("default", "one")
    made = await client.create(CONFIG_MAPS.all("default"), config_map("one", a="1", b="2"))
    assert made.metadata.uid and made.metadata.resource_version and made.metadata.creation_timestamp
    with pytest.raises(AlreadyExists):
        await client.create(CONFIG_MAPS.all("default"), config_map("one"))
    changed = await client.patch(target, {"data": {"a": "3", "b": None}}, PatchKind.MERGE)
    assert changed.data == {"a": "3"} and changed.metadata.uid == made.metadata.uid
    with pytest.raises(Conflict):
        await client.update(target, made)
    assert (await client.get(target)).data == {"a": "3"}
    with pytest.raises(Conflict):
        await client.delete(target, uid="00000000-0000-0000-0000-000000000000")
    assert await client.delete(target, uid=made.metadata.uid)
    assert not await client.delete(target)
    with pytest.raises(NotFound):
        await client.get(target)


async def test_a_patch_for_another_uid_is_refused(server: Server) -> None:
    client = server.client
    await bound(client, "replaced")
    patch = {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}, "status": {"phase": "Running"}}
    with pytest.raises((Conflict, Invalid), match=r"(?i)uid"):
        await client.patch(PODS.at("default", "replaced", "status"), patch)
    assert (await client.get(PODS.at("default", "replaced"))).status.phase == "Pending"
    await client.delete(PODS.at("default", "replaced"), grace_seconds=0)


async def test_conditions_are_merged_by_type_and_addresses_replaced(server: Server) -> None:
    client = server.client
    made = await bound(client, "patched")
    target, uid = PODS.at("default", "patched", "status"), {"uid": made.metadata.uid}
    status = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "False", "reason": "Because"}, {"type": "Theirs", "status": "True"}],
        "podIP": "10.0.0.1",
        "podIPs": [{"ip": "10.0.0.1"}],
    }
    await client.patch(target, {"metadata": uid, "status": status})
    status = {
        "conditions": [{"type": "Ready", "status": "True", "reason": None}],
        "podIP": "10.0.0.2",
        "podIPs": [{"ip": "10.0.0.2"}, {"$patch": "delete", "ip": "10.0.0.1"}],
    }
    found = await client.patch(target, {"metadata": uid, "status": status})
    conditions = {c.type: (c.status, c.reason) for c in found.status.conditions}
    assert conditions["Ready"] == ("True", "") and conditions["Theirs"] == ("True", "")
    assert [each.ip for each in found.status.pod_ips] == ["10.0.0.2"]
    assert found.status.phase == "Running" and found.spec.node_name == "n1"
    found = await client.patch(target, {"status": {"conditions": [{"$patch": "delete", "type": "Theirs"}]}})
    assert "Theirs" not in {c.type for c in found.status.conditions}
    await client.delete(PODS.at("default", "patched"), grace_seconds=0)


async def test_a_pod_on_a_node_is_marked_first_and_deleted_by_its_node(server: Server) -> None:
    client = server.client
    made = await bound(client, "graceful")
    target = PODS.at("default", "graceful")
    await client.delete(target, grace_seconds=20)
    marked = await client.get(target)
    assert marked.metadata.deletion_timestamp and marked.metadata.deletion_grace_period_seconds == 20
    await client.delete(target, grace_seconds=5)
    assert (await client.get(target)).metadata.deletion_grace_period_seconds == 5
    await client.delete(target, made.metadata.uid, grace_seconds=0)
    with pytest.raises(NotFound):
        await client.get(target)


async def test_lists_come_in_pages_and_by_field(server: Server) -> None:
    client = server.client
    for number in range(5):
        await client.create(CONFIG_MAPS.all("kube-public"), config_map(f"page-{number}"))
    listed = await client.list(CONFIG_MAPS.all("kube-public"))
    assert {f"page-{number}" for number in range(5)} <= {each.metadata.name for each in listed.items}
    one = await client.list(CONFIG_MAPS.all("kube-public"), ObjectSelector(fields="metadata.name=page-3"))
    assert [each.metadata.name for each in one.items] == ["page-3"] and one.resource_version
    for number in range(5):
        await client.delete(CONFIG_MAPS.at("kube-public", f"page-{number}"))


async def test_watch_yields_changes_after_the_list(server: Server) -> None:
    client = server.client
    select = ObjectSelector(fields="spec.nodeName=watched")
    version = (await client.list(PODS.all(), select)).resource_version
    await bound(client, "seen", "watched")
    await bound(client, "unseen", "other")
    await client.delete(PODS.at("default", "seen"), grace_seconds=0)
    reported = []
    async for event in client.watch(PODS.all(), select, version, 10):
        if event.type is not WatchType.BOOKMARK:
            reported.append((event.type, event.meta.name))
        if event.type is WatchType.DELETED:
            break
    assert reported[0] == ("ADDED", "seen") and reported[-1] == ("DELETED", "seen")
    assert "unseen" not in {name for _, name in reported}
    await client.delete(PODS.at("default", "unseen"), grace_seconds=0)


async def test_node_and_its_status_are_patched_apart(server: Server) -> None:
    client = server.client
    await client.create(NODES.all(), Node(api_version="v1", kind="Node", metadata=ObjectMeta(name="n9")))
    patch = {"status": {"conditions": [{"type": "Ready", "status": "True"}], "capacity": {"cpu": "2"}}}
    found = await client.patch(NODES.at("", "n9", "status"), patch)
    assert found.status.capacity == {"cpu": "2"}
    found = await client.patch(NODES.at("", "n9"), {"metadata": {"labels": {"a": "b"}}}, PatchKind.MERGE)
    assert found.metadata.labels["a"] == "b" and found.status.capacity == {"cpu": "2"}
    await client.delete(NODES.at("", "n9"))


async def test_a_token_bound_to_a_pod(server: Server) -> None:
    client = server.client
    account = ServiceAccount(api_version="v1", kind="ServiceAccount", metadata=ObjectMeta(name="robot"))
    await client.create(SERVICE_ACCOUNTS.all("default"), account)
    made = await bound(client, "holder")
    holder = BoundObjectReference(api_version="v1", kind="Pod", name="holder", uid=made.metadata.uid)
    spec = TokenRequestSpec(expiration_seconds=3600, bound_object_ref=holder)
    target = SERVICE_ACCOUNTS.at("default", "robot", "token").typed(TokenRequest)
    answer = await client.create(target, TokenRequest(spec=spec))
    assert answer.status.token and answer.status.expiration_timestamp
    await client.delete(PODS.at("default", "holder"), grace_seconds=0)
    await client.delete(SERVICE_ACCOUNTS.at("default", "robot"))


async def test_secrets_are_bytes(server: Server) -> None:
    secret = Secret(api_version="v1", kind="Secret", metadata=ObjectMeta(name="s"), string_data={"k": "v"})
    await server.client.create(SECRETS.all("default"), secret)
    assert (await server.client.get(SECRETS.at("default", "s"))).data == {"k": b"v"}
    await server.client.delete(SECRETS.at("default", "s"))


@asynccontextmanager
async def followed(client: ApiClient, name: str) -> AsyncIterator[Until]:
    """Run a reflector of one ConfigMap; yields a function that waits until a condition holds for its state."""
    news = asyncio.Event()
    found: list[ConfigMap | None] = []

    def deliver(items: Mapping[Key, ConfigMap]) -> None:
        found[:] = [items.get(("default", name))]
        news.set()

    async def until(holds: Callable[[ConfigMap | None], bool]) -> None:
        async with asyncio.timeout(20):
            while not (found and holds(found[0])):
                news.clear()
                await news.wait()

    query = Query(CONFIG_MAPS.all("default"), ObjectSelector(fields=f"metadata.name={name}"))
    task = asyncio.create_task(
        Reflector(client=client, query=query, deliver=deliver, clock=SystemClock()).run(), name="reflector"
    )
    try:
        yield until
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_a_reflector_follows_one_object_from_nothing_to_nothing(server: Server) -> None:
    client = server.client
    async with followed(client, "tracked") as until:
        await until(lambda value: value is None)
        await client.create(CONFIG_MAPS.all("default"), config_map("tracked", a="1"))
        await until(lambda value: value is not None and value.data == {"a": "1"})
        await client.patch(CONFIG_MAPS.at("default", "tracked"), {"data": {"a": "2"}}, PatchKind.MERGE)
        await until(lambda value: value is not None and value.data == {"a": "2"})
        await client.delete(CONFIG_MAPS.at("default", "tracked"))
        await until(lambda value: value is None)

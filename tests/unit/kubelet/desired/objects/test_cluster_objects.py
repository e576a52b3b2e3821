"""ConfigMaps, Secrets, services, runtime classes and tokens of the API server."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import NotFound, Transient
from pykubelet.kubelet.desired.manifest import ObjectKey
from pykubelet.kubelet.desired.objects import LocalObjects, api_objects
from pykubelet.kubelet.desired.objects.api_objects import ApiObjects
from pykubelet.kubelet.desired.objects.cluster import ClusterObjects
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.updates import ANNOTATION_SOURCE, Source
from pykubelet.models import core_v1 as core
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.testing.fake_api import Fault
from pykubelet.testing.fake_api.store import Place
from pykubelet.testing.wait import settle, until
from tests.unit.kubelet.apitools import Api, fake_api, running

CLASSES = "/apis/node.k8s.io/v1"
TOKEN = core.ServiceAccountTokenProjection(path="token", expiration_seconds=3600)


def pod(uid: str, *config_maps: str, secret: str = "", token: bool = False, source: str = "api") -> core.Pod:
    volumes = [core.Volume(name=name, config_map=core.ConfigMapVolumeSource(name=name)) for name in config_maps]
    if secret:
        volumes.append(core.Volume(name="s", secret=core.SecretVolumeSource(secret_name=secret)))
    if token:
        sources = (core.VolumeProjection(service_account_token=TOKEN),)
        volumes.append(core.Volume(name="t", projected=core.ProjectedVolumeSource(sources=sources)))
    meta = ObjectMeta(name=f"pod-{uid}", namespace="default", uid=uid, annotations={ANNOTATION_SOURCE: source})
    return core.Pod(metadata=meta, spec=core.PodSpec(volumes=tuple(volumes), service_account_name="robot"))


@dataclass
class Rig:
    api: Api
    local: LocalObjects
    objects: ClusterObjects
    changed: list[frozenset[ObjectKey]] = field(default_factory=list)
    touched: list[frozenset[PodUID]] = field(default_factory=list)

    async def use(self, value: core.Pod) -> None:
        self.objects.use(value)
        await self.objects.ready(value)

    def watches(self, name: str) -> int:
        return sum("watch=true" in each and f"%3D{name}" in each for each in self.api.fake.requests)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with fake_api() as api:
        local = LocalObjects()
        touched = list[frozenset[PodUID]]()
        objects = ClusterObjects(client=api.client, node="n", local=local, touched=touched.append, clock=api.clock)
        made = Rig(api, local, objects, touched=touched)
        objects.subscribe(made.changed.append)
        async with running(*objects.parts().values()):
            yield made


async def test_used_object_is_watched(rig: Rig) -> None:
    rig.api.put("configmaps", "a", data={"k": "1"})
    await rig.use(pod("1", "a"))
    assert rig.objects.get_config_map("default", "a").data == {"k": "1"}
    rig.api.change("configmaps", "a", data={"k": "2"})
    await until(lambda: rig.changed)
    assert rig.changed == [frozenset({ObjectKey("ConfigMap", "default", "a")})]
    assert rig.objects.get_config_map("default", "a").data == {"k": "2"}


async def test_missing_object_is_reported_when_it_is_created(rig: Rig) -> None:
    await rig.use(pod("1", secret="late"))
    with pytest.raises(NotFound, match='secret "late" not found'):
        rig.objects.get_secret("default", "late")
    rig.api.put("secrets", "late", stringData={"k": "v"})
    await until(lambda: rig.changed)
    assert rig.objects.get_secret("default", "late").data == {"k": b"v"}


async def test_unused_secret_is_released(rig: Rig) -> None:
    rig.api.put("secrets", "s", data={})
    await rig.use(pod("1", secret="s"))
    await rig.use(pod("2", secret="s"))
    await until(lambda: rig.watches("s") == 1)
    rig.objects.release(PodUID("1"))
    assert rig.objects.get_secret("default", "s").metadata.name == "s"
    rig.objects.release(PodUID("2"))
    with pytest.raises(NotFound):
        rig.objects.get_secret("default", "s")
    await settle()
    rig.api.change("secrets", "s", data={"k": "Mg=="})
    await settle()
    assert rig.changed == []
    await rig.use(pod("3", secret="s"))
    assert rig.objects.get_secret("default", "s").data == {"k": b"2"}
    await until(lambda: rig.watches("s") == 2)


async def test_unused_config_map_is_kept_for_the_next_pod(rig: Rig) -> None:
    rig.api.put("configmaps", "a", data={})
    await rig.use(pod("1", "a"))
    await until(lambda: rig.watches("a") == 1)
    rig.objects.release(PodUID("1"))
    with pytest.raises(NotFound):
        rig.objects.get_config_map("default", "a")
    rig.api.change("configmaps", "a", data={"k": "2"})
    await settle()
    assert rig.changed == [], "no pod is concerned"
    asked = rig.api.fake.count("GET")
    await rig.use(pod("2", "a"))
    assert rig.objects.get_config_map("default", "a").data == {"k": "2"}
    assert rig.api.fake.count("GET") == asked
    rig.api.change("configmaps", "a", data={"k": "3"})
    await until(lambda: rig.changed)
    assert rig.objects.get_config_map("default", "a").data == {"k": "3"}


async def test_unused_config_map_is_released_after_a_while(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_objects, "LINGER", 0.1)
    monkeypatch.setattr(api_objects, "_MAX_LINGERING", 1)
    async with fake_api() as api:
        objects = ApiObjects(client=api.client, local=rig.local, clock=api.clock)
        async with running(objects.run()):
            for name in ("a", "b"):
                api.put("configmaps", name, data={})
                objects.use(pod(name, name))
                await objects.ready(PodUID(name))
            before = len(asyncio.all_tasks())
            for name in ("a", "b"):
                objects.release(PodUID(name))
            await asyncio.sleep(0)
            assert ObjectKey("ConfigMap", "default", "a") not in objects._followed
            assert ObjectKey("ConfigMap", "default", "b") in objects._followed
            await until(lambda: ObjectKey("ConfigMap", "default", "b") not in objects._followed)
            await until(lambda: len(asyncio.all_tasks()) <= before - 2)


@pytest.mark.parametrize("why", ["deleted", "immutable", "broken"])
async def test_config_map_that_may_have_changed_is_read_again(rig: Rig, why: str) -> None:
    rig.api.put("configmaps", "a", data={"k": "1"}, immutable=why == "immutable")
    await rig.use(pod("1", "a"))
    await until(lambda: rig.watches("a") == (why != "immutable"))
    rig.objects.release(PodUID("1"))
    place = Place("/api/v1", "configmaps", "default", "a")
    if why == "broken":
        await rig.api.fake.go_away()
        await settle()
        await rig.api.fake.serve_again()
    rig.api.fake.store.delete(place, "", None)
    if why == "deleted":
        await settle()
    rig.api.put("configmaps", "a", data={"k": "2"})
    await rig.use(pod("2", "a"))
    await until(lambda: rig.objects.get_config_map("default", "a").data == {"k": "2"})


async def test_an_immutable_object_is_read_once(rig: Rig) -> None:
    rig.api.put("configmaps", "fixed", data={"k": "1"}, immutable=True)
    await rig.use(pod("1", "fixed"))
    await settle()
    assert rig.watches("fixed") == 0 and rig.objects.get_config_map("default", "fixed").data == {"k": "1"}


async def test_forbidden_read_is_retried_soon(rig: Rig) -> None:
    rig.api.put("secrets", "s", data={})
    rig.api.fake.faults = [Fault("secrets", status=403, times=3)]
    await rig.use(pod("1", secret="s"))
    assert rig.objects.get_secret("default", "s").metadata.name == "s"


async def test_manifests_have_their_own_objects(rig: Rig) -> None:
    mine = core.ConfigMap(metadata=ObjectMeta(name="a", namespace="default"), data={"k": "local"})
    rig.local.replace(Source.FILE, [mine])
    await rig.use(pod("1", "a", source="file"))
    assert rig.objects.get_config_map("default", "a") is mine
    assert rig.changed and rig.watches("a") == 0


async def test_services_and_runtime_classes(rig: Rig) -> None:
    rig.api.put("services", "web", spec={"clusterIP": "10.0.0.1"})
    rig.api.put("runtimeclasses", "vm", "", CLASSES, handler="kata")
    await rig.use(pod("1"))
    await until(lambda: rig.objects.services)
    assert [each.metadata.name for each in rig.objects.services] == ["web"]
    await until(lambda: not _is_unknown(rig))
    assert rig.objects.runtime_handler("vm") == "kata"
    with pytest.raises(NotFound, match="other"):
        rig.objects.runtime_handler("other")


def _is_unknown(rig: Rig) -> bool:
    try:
        rig.objects.runtime_handler("vm")
    except Transient:
        return True
    return False


async def test_tokens_are_requested_once_and_renewed_in_time(rig: Rig) -> None:
    rig.api.put("serviceaccounts", "robot")
    value = pod("1", token=True)
    with pytest.raises(Transient, match="robot"):
        rig.objects.token(value, TOKEN)
    await rig.use(value)
    first = rig.objects.token(value, TOKEN)
    await rig.use(value)
    assert rig.objects.token(value, TOKEN) == first and rig.api.fake.count("POST") == 1
    rig.api.clock.shift = 3600 * 0.79 - 20
    await settle()
    assert rig.api.fake.count("POST") == 1
    rig.api.clock.shift = 3600 * 0.81
    await until(lambda: rig.touched)
    assert rig.touched[0] == frozenset({PodUID("1")}) and rig.objects.token(value, TOKEN) != first
    rig.objects.release(PodUID("1"))
    with pytest.raises(Transient):
        rig.objects.token(value, TOKEN)


async def test_credential_plugins_get_account_and_token_of_a_pod(rig: Rig) -> None:
    rig.api.put("serviceaccounts", "robot")
    value = pod("1")
    account = await rig.objects.accounts.service_account("default", "robot")
    assert account.metadata.name == "robot"
    token = await rig.objects.accounts.image_pull_token(value, "registry")
    assert token == await rig.objects.accounts.image_pull_token(value, "registry")
    assert token != await rig.objects.accounts.image_pull_token(value, "other")
    with pytest.raises(NotFound):
        await rig.objects.accounts.service_account("default", "gone")


async def test_tokens_of_an_admitted_pod_are_requested_ahead_of_time(rig: Rig) -> None:
    rig.api.put("serviceaccounts", "robot")
    value = pod("1", token=True)
    rig.objects.expect(value)
    rig.objects.expect(value)
    await rig.use(value)
    assert rig.objects.token(value, TOKEN) and rig.api.fake.count("POST") == 1


@pytest.mark.parametrize("fate", ["deleted", "ended", "static"])
async def test_no_token_is_requested_for_an_ending_pod(rig: Rig, fate: str) -> None:
    rig.api.put("serviceaccounts", "robot")
    value = pod("1", token=True, source="file" if fate == "static" else "api")
    if fate == "deleted":
        value = replace(value, metadata=replace(value.metadata, deletion_timestamp=datetime(2020, 1, 1, tzinfo=UTC)))
    if fate == "ended":
        value = replace(value, status=core.PodStatus(phase="Failed"))
    rig.objects.expect(value)
    await settle()
    assert rig.api.fake.count("POST") == 0


async def test_number_of_concurrent_early_token_requests_is_limited(rig: Rig) -> None:
    rig.api.put("serviceaccounts", "robot")
    rig.api.fake.faults = [Fault("POST", delay=2.0, times=4)]
    pods = [pod(str(number), token=True) for number in range(10)]
    for value in pods:
        rig.objects.expect(value)
    await until(lambda: rig.api.fake.count("POST") == 4)
    await settle()
    assert rig.api.fake.count("POST") == 4
    await asyncio.gather(*(rig.use(value) for value in pods))
    assert rig.api.fake.count("POST") == 10 and all(rig.objects.token(value, TOKEN) for value in pods)


async def test_early_token_of_a_removed_pod_is_dropped(rig: Rig) -> None:
    rig.api.put("serviceaccounts", "robot")
    rig.api.fake.faults = [Fault("POST", delay=0.1)]
    value = pod("1", token=True)
    rig.objects.expect(value)
    await until(lambda: rig.api.fake.count("POST") == 1)
    rig.objects.release(PodUID("1"))
    await settle()
    await settle()
    with pytest.raises(Transient):
        rig.objects.token(value, TOKEN)


async def test_error_of_an_early_token_request_is_reported_when_it_is_needed(rig: Rig) -> None:
    value = pod("1", token=True)
    rig.objects.expect(value)
    await until(lambda: rig.api.fake.count("POST") == 1)
    with pytest.raises(NotFound, match="robot"):
        await rig.use(value)


async def test_a_token_that_cannot_be_renewed_stays_in_use(rig: Rig) -> None:
    rig.api.put("serviceaccounts", "robot")
    value = pod("1", token=True)
    await rig.use(value)
    first = rig.objects.token(value, TOKEN)
    rig.api.fake.store.delete(Place("/api/v1", "serviceaccounts", "default", "robot"), "", None)
    rig.api.clock.shift = 3600 * 0.9
    await until(lambda: rig.api.fake.count("POST") >= 2)
    assert rig.objects.token(value, TOKEN) == first
    await rig.objects.ready(value)
    rig.api.clock.shift = 3700
    with pytest.raises(NotFound):
        await rig.objects.ready(value)


@pytest.mark.parametrize("jump", [3600.0 * 2, -3600.0 * 2])
async def test_token_after_the_wall_clock_jumped_is_renewed_in_time(rig: Rig, jump: float) -> None:
    rig.api.put("serviceaccounts", "robot")
    value = pod("1", token=True)
    await rig.use(value)
    first = rig.objects.token(value, TOKEN)
    rig.api.clock.jump = jump
    rig.api.clock.shift = 3600 * 0.79 - 20
    await rig.use(value)
    await settle()
    assert rig.objects.token(value, TOKEN) == first and rig.api.fake.count("POST") == 1
    rig.api.clock.shift = 3600 * 0.81
    await until(lambda: rig.touched)
    assert rig.objects.token(value, TOKEN) != first

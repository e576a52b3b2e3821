"""ConfigMaps, Secrets, services, runtime classes and tokens of the API server."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from pykubelet.base.errors import NotFound, Transient
from pykubelet.kubelet.desired.manifest import ObjectKey
from pykubelet.kubelet.desired.objects import LocalObjects
from pykubelet.kubelet.desired.objects.cluster import ClusterObjects
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.updates import ANNOTATION_SOURCE, Source
from pykubelet.models import core_v1 as core
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.testing.fake_api import Fault
from pykubelet.testing.fake_api.store import Place
from tests.unit.kubelet.apitools import Api, fake_api, running, settle, until

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
        objects = ClusterObjects(api.client, local, api.clock)
        made = Rig(api, local, objects)
        objects.subscribe(made.changed.append)
        objects.on_pods(made.touched.append)
        async with running(*objects.parts().values()):
            yield made


async def test_an_object_in_use_is_there_and_followed(rig: Rig) -> None:
    rig.api.put("configmaps", "a", data={"k": "1"})
    await rig.use(pod("1", "a"))
    assert rig.objects.get_config_map("default", "a").data == {"k": "1"}
    rig.api.change("configmaps", "a", data={"k": "2"})
    await until(lambda: rig.changed)
    assert rig.changed == [frozenset({ObjectKey("ConfigMap", "default", "a")})]
    assert rig.objects.get_config_map("default", "a").data == {"k": "2"}


async def test_one_that_is_missing_is_told_when_it_comes(rig: Rig) -> None:
    await rig.use(pod("1", secret="late"))
    with pytest.raises(NotFound, match='secret "late" not found'):
        rig.objects.get_secret("default", "late")
    rig.api.put("secrets", "late", stringData={"k": "v"})
    await until(lambda: rig.changed)
    assert rig.objects.get_secret("default", "late").data == {"k": b"v"}


async def test_what_nobody_uses_any_more_is_let_go(rig: Rig) -> None:
    rig.api.put("configmaps", "a", data={})
    first, second = pod("1", "a"), pod("2", "a")
    await rig.use(first)
    await rig.use(second)
    await until(lambda: rig.watches("a") == 1)
    rig.objects.release(PodUID("1"))
    assert rig.objects.get_config_map("default", "a").metadata.name == "a"
    rig.objects.release(PodUID("2"))
    with pytest.raises(NotFound):
        rig.objects.get_config_map("default", "a")
    await settle()
    rig.api.change("configmaps", "a", data={"k": "2"})
    await settle()
    assert rig.changed == []


async def test_an_immutable_object_is_read_once(rig: Rig) -> None:
    rig.api.put("configmaps", "fixed", data={"k": "1"}, immutable=True)
    await rig.use(pod("1", "fixed"))
    await settle()
    assert rig.watches("fixed") == 0 and rig.objects.get_config_map("default", "fixed").data == {"k": "1"}


async def test_a_node_that_may_not_read_yet_asks_again_soon(rig: Rig) -> None:
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
    await until(lambda: rig.objects.services())
    assert [each.metadata.name for each in rig.objects.services()] == ["web"]
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


async def test_tokens_are_got_once_and_renewed_in_time(rig: Rig) -> None:
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

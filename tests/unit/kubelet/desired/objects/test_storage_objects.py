"""Claims, volumes, attachments, drivers and their tokens at the API server."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from pykubelet.base.errors import Invalid, NotFound, Transient
from pykubelet.kubelet.desired.objects.storage import StorageObjects
from pykubelet.kubelet.desired.objects.tokens import ServiceAccountTokens
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.storage import AttachLimitExceeded
from pykubelet.models import core_v1 as core
from pykubelet.models.codec import from_builtins
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.models.storage_v1 import TokenRequest
from pykubelet.testing.fake_api import Fault
from pykubelet.testing.wait import settle, until
from tests.unit.kubelet.apitools import Api, fake_api, running

STORAGE = "/apis/storage.k8s.io/v1"
POD = core.Pod(
    metadata=ObjectMeta(name="web", namespace="default", uid="u1"), spec=core.PodSpec(service_account_name="robot")
)


@dataclass
class Rig:
    api: Api
    storage: StorageObjects
    touched: list[frozenset[PodUID]] = field(default_factory=list)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with fake_api() as api:
        tokens = ServiceAccountTokens(client=api.client, clock=api.clock, renewed=lambda uid: None)
        touched: list[frozenset[PodUID]] = []
        storage = StorageObjects(client=api.client, node="n", tokens=tokens, touched=touched.append, clock=api.clock)
        async with running(*storage.parts().values()):
            yield Rig(api, storage, touched)


async def test_claims_and_volumes_are_read_as_they_are(rig: Rig) -> None:
    rig.api.put("persistentvolumeclaims", "c", spec={"volumeName": "pv"})
    rig.api.put("persistentvolumes", "pv", namespace="", spec={"local": {"path": "/x"}})
    rig.api.put("secrets", "s", stringData={"k": "v"})
    assert (await rig.storage.claim("default", "c")).spec.volume_name == "pv"
    local = (await rig.storage.volume("pv")).spec.local
    assert local is not None and local.path == "/x"
    assert (await rig.storage.secret("default", "s")).data == {"k": b"v"}
    with pytest.raises(NotFound):
        await rig.storage.claim("default", "other")


async def test_drivers_are_followed_from_the_first_that_is_needed(rig: Rig) -> None:
    await settle()
    assert rig.api.fake.count(f"GET {STORAGE}/csidrivers") == 0
    rig.api.put("csidrivers", "d", namespace="", prefix=STORAGE, spec={"attachRequired": False})
    found = await rig.storage.driver("d")
    assert found is not None and found.spec.attach_required is False
    assert await rig.storage.driver("other") is None
    rig.api.put("csidrivers", "other", namespace="", prefix=STORAGE, spec={})
    async with asyncio.timeout(30):
        while await rig.storage.driver("other") is None:
            await settle()


def _change_node(api: Api, *, in_use: bool, attached: bool) -> core.Node:
    """Change the node's status with regard to the volume ``v``; return the Node object."""
    volumes = [{"name": "v", "devicePath": ""}] if attached else []
    status = {"volumesInUse": ["v"] if in_use else [], "volumesAttached": volumes}
    change = api.change if api.all("nodes") else api.put
    return from_builtins(change("nodes", "n", namespace="", status=status), core.Node)


async def test_a_volume_is_attached_when_the_node_says_so(rig: Rig) -> None:
    task = asyncio.create_task(rig.storage.wait_attached("v", "csi-1", asyncio.timeout(None)))
    await settle()
    # Not in use yet, so the controller could still detach it.
    rig.storage.node_seen(_change_node(rig.api, in_use=False, attached=True))
    await settle()
    assert not task.done()
    rig.storage.node_seen(_change_node(rig.api, in_use=True, attached=True))
    await task
    await rig.storage.wait_attached("v", "csi-1", asyncio.timeout(None))


async def test_volume_that_is_being_detached_is_not_attached_though_the_watch_is_behind(rig: Rig) -> None:
    """A pod of a StatefulSet often follows another one with the same volume at once; mounted, it would lose data."""
    rig.storage.node_seen(_change_node(rig.api, in_use=True, attached=True))
    later = _change_node(rig.api, in_use=True, attached=False)
    task = asyncio.create_task(rig.storage.wait_attached("v", "csi-1", asyncio.timeout(None)))
    await until(lambda: rig.api.fake.count("GET /api/v1/nodes/n"))
    rig.storage.node_seen(later)
    await settle()
    assert not task.done()
    rig.storage.node_seen(_change_node(rig.api, in_use=True, attached=True))
    await task


async def test_a_volume_that_is_not_attached_says_why(rig: Rig) -> None:
    async def why() -> str:
        with pytest.raises(Transient) as caught:
            await rig.storage.wait_attached("v", "csi-1", asyncio.timeout(0.01))
        return str(caught.value)

    assert "there is no VolumeAttachment csi-1; is the cluster's attach/detach" in await why()
    status: dict[str, object] = {"attached": False, "attachError": {"message": "quota"}}
    rig.api.put("volumeattachments", "csi-1", namespace="", prefix=STORAGE, spec={}, status=status)
    assert "VolumeAttachment csi-1: quota" in await why()
    rig.api.change("volumeattachments", "csi-1", namespace="", prefix=STORAGE, status={"attached": False})
    assert "external-attacher" in await why()


async def test_volume_without_attachment_says_so_though_a_node_does_not_learn_whether_it_exists(rig: Rig) -> None:
    """The node authorizer refuses what is not related to the node, and so what does not exist."""
    rig.api.fake.faults.append(Fault("volumeattachments", status=403, message="no relationship found"))
    with pytest.raises(Transient, match=r"there is no VolumeAttachment csi-1; .*no relationship found"):
        await rig.storage.wait_attached("v", "csi-1", asyncio.timeout(0.01))


async def test_volume_beyond_the_limit_of_the_node_says_so(rig: Rig) -> None:
    status = {"attached": False, "attachError": {"message": "limit is 9", "errorCode": 8}}
    rig.api.put("volumeattachments", "csi-1", namespace="", prefix=STORAGE, spec={}, status=status)
    with pytest.raises(AttachLimitExceeded, match="VolumeAttachment csi-1: limit is 9"):
        await rig.storage.wait_attached("v", "csi-1", asyncio.timeout(0.01))


async def test_attachment_metadata_of_the_controller_is_returned(rig: Rig) -> None:
    status = {"attached": True, "attachmentMetadata": {"device": "x"}}
    rig.api.put("volumeattachments", "csi-1", namespace="", prefix=STORAGE, spec={}, status=status)
    assert await rig.storage.attachment_metadata("csi-1") == {"device": "x"}


async def test_drivers_get_a_token_for_each_audience(rig: Rig) -> None:
    rig.api.put("serviceaccounts", "robot")
    requests = (TokenRequest(audience="vault", expiration_seconds=3600), TokenRequest())
    found = json.loads(await rig.storage.driver_tokens(POD, requests))
    assert set(found) == {"vault", ""} and found["vault"]["token"].startswith("token-robot")
    assert found["vault"]["expirationTimestamp"].endswith("Z")
    assert json.loads(await rig.storage.driver_tokens(POD, requests)) == found  # kept


@pytest.mark.parametrize("expires", [253402300800.0, 2.0**62])
async def test_token_that_ends_after_the_last_year_of_a_date_is_an_error_of_that_volume(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, expires: float
) -> None:
    """The API server may return 9999-12-31T23:59:59-01:00."""
    rig.api.put("serviceaccounts", "robot")

    async def fetch(
        tokens: ServiceAccountTokens, pod: core.Pod, audience: str, life: int | None
    ) -> tuple[bytes, float]:
        return b"token", expires

    with monkeypatch.context() as patch:
        patch.setattr(ServiceAccountTokens, "fetch", fetch)
        with pytest.raises(Invalid, match=r"token for 'vault' of pod default/web: its expiry.* not before year 10000"):
            await rig.storage.driver_tokens(POD, (TokenRequest(audience="vault"),))
    assert set(json.loads(await rig.storage.driver_tokens(POD, (TokenRequest(audience="vault"),)))) == {"vault"}


async def test_pods_are_touched(rig: Rig) -> None:
    rig.storage.touch(frozenset({PodUID("u1")}))
    await until(lambda: rig.touched == [frozenset({PodUID("u1")})])


async def test_labels_of_the_node_are_awaited(rig: Rig) -> None:
    task = asyncio.create_task(rig.storage.node_labels())
    await settle()
    assert not task.done()
    rig.storage.node_seen(core.Node(metadata=ObjectMeta(name="n", labels={"zone": "a"})))
    assert await task == {"zone": "a"}

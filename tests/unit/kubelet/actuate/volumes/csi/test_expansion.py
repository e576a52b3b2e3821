"""Volume expansion: status of the claim before, during and after it."""

from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest

from pykubelet.base.errors import PykubeletError
from pykubelet.base.units import Bytes
from pykubelet.kubelet.actuate.volumes.csi.csi_errors import CsiFailed
from pykubelet.kubelet.actuate.volumes.expand_volumes import VolumeExpansion
from pykubelet.kubelet.actuate.volumes.plan import expansion as expansion_rules
from pykubelet.kubelet.actuate.volumes.volume_source import Source
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod, Volume
from pykubelet.testing.clock import VirtualClock
from tests.unit.kubelet.actuate.volumes.build import Events

POD = from_builtins({"metadata": {"name": "web", "namespace": "shop", "uid": "u-1"}}, Pod)


def claim(status: str = "", *conditions: str) -> PersistentVolumeClaim:
    fields: dict[str, Any] = {"conditions": [{"type": kind, "status": "True"} for kind in conditions]}
    if status:
        fields["allocatedResourceStatuses"] = {"storage": status}
    meta = {"name": "c", "namespace": "shop", "resourceVersion": "7"}
    return from_builtins({"metadata": meta, "status": fields}, PersistentVolumeClaim)


def source(read_only: bool = False, claim: str = "shop/c") -> Source:
    return Source(kind="csi", name="pv1", volume=Volume(name="pv1"), claim=claim, read_only=read_only)


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ("", False),
        ("NodeResizePending", True),
        ("NodeResizeInProgress", True),
        ("NodeResizeInfeasible", False),
        ("ControllerResizeInProgress", False),
    ],
)
def test_expansion_is_wanted_by_claim_status(status: str, wanted: bool) -> None:
    assert expansion_rules.is_wanted(claim(status)) is wanted


def test_claim_already_in_progress_is_not_patched() -> None:
    assert expansion_rules.begun(claim("NodeResizeInProgress")) is None
    made = expansion_rules.begun(claim("NodeResizePending"))
    assert made is not None and made["metadata"] == {"resourceVersion": "7"}


@dataclass
class World:
    """The API server's objects and the driver."""

    status: str = "NodeResizePending"
    refusal: PykubeletError | None = None
    patches: list[dict[str, Any]] = field(default_factory=list)
    expanded: list[int] = field(default_factory=list)
    reads: int = 0

    async def claim(self, namespace: str, name: str) -> PersistentVolumeClaim:
        self.reads += 1
        return claim(self.status, "FileSystemResizePending", "Custom")

    async def volume(self, name: str) -> PersistentVolume:
        return from_builtins({"metadata": {"name": name}, "spec": {"capacity": {"storage": "2Mi"}}}, PersistentVolume)

    async def node_labels(self) -> dict[str, str]:
        return {}

    async def patch_claim(self, claim: PersistentVolumeClaim, patch: dict[str, Any]) -> PersistentVolumeClaim:
        self.patches.append(patch)
        return claim

    async def expand(self, pod: Pod, source: Source, size: Bytes) -> None:
        self.expanded.append(size)
        if self.refusal is not None:
            raise self.refusal

    def is_infeasible(self, error: PykubeletError) -> bool:
        return isinstance(error, CsiFailed) and error.is_infeasible


class Rig:
    def __init__(self, world: World) -> None:
        self.events = Events()
        self.clock = VirtualClock()
        self.expansion = VolumeExpansion(claims=world, csi=world, events=self.events, clock=self.clock)


async def test_expansion_of_a_volume_is_reported_in_its_claim() -> None:
    world = World()
    rig = Rig(world)
    await rig.expansion.expand_if_due(POD, "data", source())
    assert world.expanded == [2 << 20]
    assert world.patches[0]["status"] == {"allocatedResourceStatuses": {"storage": "NodeResizeInProgress"}}
    assert world.patches[1]["status"] == {
        "capacity": {"storage": "2Mi"},
        "allocatedResourceStatuses": {"storage": None},
        "conditions": [{"$patch": "delete", "type": "FileSystemResizePending"}],
    }
    (event,) = rig.events.seen
    assert event == ("FileSystemResizeSuccessful", 'MountVolume.NodeExpandVolume succeeded for volume "pv1"')


def legacy(requested: str, capacity: str, **status: Any) -> PersistentVolumeClaim:
    fields = {"capacity": {"storage": capacity}, "conditions": [{"type": "FileSystemResizePending", "status": "True"}]}
    meta = {"name": "c", "namespace": "shop", "resourceVersion": "7"}
    spec = {"resources": {"requests": {"storage": requested}}}
    return from_builtins({"metadata": meta, "spec": spec, "status": {**fields, **status}}, PersistentVolumeClaim)


async def test_a_volume_of_an_older_controller_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()

    async def claim_of_older(namespace: str, name: str) -> PersistentVolumeClaim:
        return legacy("2Mi", "1Mi")

    monkeypatch.setattr(world, "claim", claim_of_older)
    rig = Rig(world)
    await rig.expansion.expand_if_due(POD, "data", source())
    assert world.expanded == [2 << 20]
    (patch,) = world.patches
    assert patch["status"]["capacity"] == {"storage": "2Mi"}
    assert patch["status"]["conditions"] == [{"$patch": "delete", "type": "FileSystemResizePending"}]
    # A failure is an event; the next check retries it.
    failing = World(refusal=CsiFailed(grpc.StatusCode.INTERNAL, "no room"))
    monkeypatch.setattr(failing, "claim", claim_of_older)
    rig = Rig(failing)
    await rig.expansion.expand_if_due(POD, "data", source())
    assert failing.expanded == [2 << 20] and failing.patches == []
    assert [reason for reason, _ in rig.events.seen] == ["VolumeResizeFailed"]


@pytest.mark.parametrize(
    ("claim", "is_legacy", "wanted"),
    [
        (legacy("2Mi", "1Mi"), True, True),
        (legacy("3Mi", "2048Ki"), True, False),  # the volume itself has not grown yet
        (legacy("2Mi", "2Mi"), False, False),
        (legacy("2Mi", "1Mi", allocatedResources={"storage": "2Mi"}), False, True),
        (legacy("2Mi", "1Mi", allocatedResourceStatuses={"storage": "NodeResizePending"}), False, True),
    ],
)
def test_older_controllers_are_recognized(claim: PersistentVolumeClaim, is_legacy: bool, wanted: bool) -> None:
    pv = from_builtins({"metadata": {"name": "pv"}, "spec": {"capacity": {"storage": "2Mi"}}}, PersistentVolume)
    assert expansion_rules.is_legacy(claim) is is_legacy
    assert expansion_rules.is_wanted_by_size(claim, pv) is wanted


async def test_claim_is_read_once_a_minute() -> None:
    world = World(status="")
    rig = Rig(world)
    for _ in range(3):
        await rig.expansion.expand_if_due(POD, "data", source())
    assert world.reads == 1 and not world.patches
    await rig.clock.advance(61)
    await rig.expansion.expand_if_due(POD, "data", source())
    assert world.reads == 2
    rig.expansion.forget(PodUID("u-1"))
    await rig.expansion.expand_if_due(POD, "data", source())
    assert world.reads == 3


async def test_volumes_without_expansion_are_ignored() -> None:
    world = World()
    rig = Rig(world)
    await rig.expansion.expand_if_due(POD, "data", source(claim=""))
    assert world.reads == 0


@pytest.mark.parametrize(
    ("found", "reported"),
    [(claim("NodeResizePending"), True), (claim(), False), (legacy("2Mi", "1Mi"), True), (legacy("3Mi", "2Mi"), False)],
)
async def test_read_only_volume_that_should_grow_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, found: PersistentVolumeClaim, reported: bool
) -> None:
    world = World()
    rig = Rig(world)

    async def read(namespace: str, name: str) -> PersistentVolumeClaim:
        world.reads += 1
        return found

    monkeypatch.setattr(world, "claim", read)
    for _ in range(2):
        await rig.expansion.expand_if_due(POD, "data", source(read_only=True))
        await rig.clock.advance(61)
    assert world.reads == 1 and world.expanded == [] and world.patches == []
    text = 'MountVolume.NodeExpandVolume failed for volume "pv1" requested read-only file system'
    assert rig.events.seen == ([("FileSystemResizeFailed", text)] if reported else [])


@pytest.mark.parametrize(
    ("code", "infeasible"), [(grpc.StatusCode.INTERNAL, False), (grpc.StatusCode.OUT_OF_RANGE, True)]
)
async def test_failed_expansion_is_reported(code: grpc.StatusCode, infeasible: bool) -> None:
    world = World(refusal=CsiFailed(code, "no room"))
    rig = Rig(world)
    await rig.expansion.expand_if_due(POD, "data", source())
    status = world.patches[-1]["status"]
    assert status["conditions"][0]["type"] == "NodeResizeError" and "no room" in status["conditions"][0]["message"]
    assert ("allocatedResourceStatuses" in status) is infeasible
    assert rig.events.seen[0][0] == "VolumeResizeFailed"

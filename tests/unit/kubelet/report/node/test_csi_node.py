"""The CSINode object, and the drivers' ids and labels on the Node object."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from pykubelet.base.concurrency.callbacks import Callbacks
from pykubelet.kubelet.report.node import CsiNodeReporter, CsiNodeState
from pykubelet.kubelet.report.node.plan.csi_objects import (
    NODE_IDS,
    new_csi_node,
    node_patch,
    topology_collisions,
    with_drivers,
)
from pykubelet.kubelet.types.storage import DriverNodeInfo
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import Node
from pykubelet.models.storage_v1 import CSINode
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.fake_api import Fault
from pykubelet.testing.fake_api.store import Place
from pykubelet.testing.wait import until
from tests.unit.kubelet.apitools import Api, fake_api, running

STORAGE = "/apis/storage.k8s.io/v1"
PLUGINS = ("aws-ebs", "azure-disk", "azure-file", "cinder", "gce-pd", "portworx-volume", "vsphere-volume")
MIGRATED = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(f"kubernetes.io/{each}" for each in PLUGINS)}
INFO = DriverNodeInfo("node-1", 5, {"zone": "z", "area": "a"})


def node(**meta: object) -> Node:
    return from_builtins({"metadata": {"name": "n", "uid": "n-1", **meta}}, Node)


def csi_node(*drivers: dict[str, object], uid: str = "n-1") -> CSINode:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": uid}
    meta = {"name": "n", "ownerReferences": [owner], "annotations": MIGRATED}
    return from_builtins({"metadata": meta, "spec": {"drivers": drivers}}, CSINode)


THERE: dict[str, object] = {
    "name": "d", "nodeID": "node-1", "topologyKeys": ["area", "zone"], "allocatable": {"count": 5},
}  # fmt: skip


def test_a_new_object_belongs_to_the_node() -> None:
    made = new_csi_node(node())
    assert [owner.uid for owner in made.metadata.owner_references] == ["n-1"] and made.spec.drivers == ()
    assert made.metadata.annotations == MIGRATED
    assert with_drivers(made, node(), {}, ()) is None


def test_the_plugins_that_drivers_have_taken_over_are_put_right() -> None:
    old = csi_node(THERE)
    annotations = {"theirs": "x", **MIGRATED, next(iter(MIGRATED)): "kubernetes.io/gce-pd"}
    made = with_drivers(replace(old, metadata=replace(old.metadata, annotations=annotations)), node(), {"d": INFO}, ())
    assert made is not None and made.metadata.annotations == {"theirs": "x", **MIGRATED}


@pytest.mark.parametrize(
    ("found", "there", "gone", "names"),
    [
        (csi_node(), {}, (), None),
        (csi_node(), {"d": INFO}, (), ["d"]),
        (csi_node(THERE), {"d": INFO}, (), None),
        (csi_node({**THERE, "topologyKeys": ["zone", "area"]}), {"d": INFO}, (), None),
        (csi_node({**THERE, "nodeID": "old"}), {"d": INFO}, (), ["d"]),
        (csi_node({**THERE, "name": "late"}), {"d": INFO}, (), ["late", "d"]),
        (csi_node(THERE), {}, ("d",), []),
        (csi_node(uid="another"), {}, (), []),
    ],
)
def test_drivers_of_the_object_are_merged_with_those_installed(
    found: CSINode, there: dict[str, DriverNodeInfo], gone: tuple[str, ...], names: list[str] | None
) -> None:
    made = with_drivers(found, node(), there, gone)
    assert (None if made is None else [driver.name for driver in made.spec.drivers]) == names
    assert made is None or with_drivers(made, node(), there, gone) is None


def test_no_limit_is_no_number() -> None:
    made = with_drivers(csi_node(), node(), {"d": DriverNodeInfo("x")}, ())
    assert made is not None and made.spec.drivers[0].allocatable is None


@pytest.mark.parametrize(
    ("before", "there", "gone", "expected"),
    [
        ({}, {}, (), None),
        ({}, {"d": INFO}, (), {"annotations": {NODE_IDS: '{"d":"node-1"}'}, "labels": INFO.topology}),
        ({"annotations": {NODE_IDS: '{"d":"node-1"}'}, "labels": dict(INFO.topology)}, {"d": INFO}, (), None),
        ({"annotations": {NODE_IDS: '{"d":"x","e":"y"}'}}, {}, ("d",), {"annotations": {NODE_IDS: '{"e":"y"}'}}),
        ({"annotations": {NODE_IDS: '{"d":"x"}'}}, {}, ("d",), {"annotations": {NODE_IDS: None}}),
        ({"annotations": {NODE_IDS: "nonsense"}}, {}, ("d",), None),
    ],
)
def test_node_object_is_patched_with_ids_and_topology_of_drivers(
    before: dict[str, object], there: dict[str, DriverNodeInfo], gone: tuple[str, ...], expected: object
) -> None:
    assert node_patch(node(**before), there, gone) == (None if expected is None else {"metadata": expected})


@dataclass
class Rig:
    api: Api
    reporter: CsiNodeReporter
    registered: asyncio.Event
    replaced: Callbacks[[]]
    nodes: list[Node] = field(default_factory=list)
    state: CsiNodeState = field(default_factory=CsiNodeState)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with fake_api() as api:
        nodes: list[Node] = []
        registered, replaced, state = asyncio.Event(), Callbacks[[]](), CsiNodeState()
        reporter = CsiNodeReporter(
            client=api.client,
            node=lambda: nodes[-1] if nodes else None,
            registered=registered,
            replaced=replaced,
            state=state,
            installed=Callbacks(),
            removed=Callbacks(),
            clock=api.clock,
        )
        async with running(reporter.run()):
            yield Rig(api, reporter, registered, replaced, nodes, state)


def drivers(rig: Rig) -> list[str]:
    found = rig.api.all("csinodes", STORAGE)
    return [driver["name"] for each in found for driver in each["spec"].get("drivers", ())]


async def test_the_object_is_there_before_any_driver(rig: Rig) -> None:
    rig.api.fake.faults.append(Fault("POST .*csinodes", status=403, message="no rights", times=10**6))
    reported: list[bool] = []
    rig.state.initialized.subscribe(lambda: reported.append(True))
    assert rig.state.fault() == "CSINode is not yet initialized"
    rig.nodes.append(from_builtins(rig.api.put("nodes", "n", namespace=""), Node))
    rig.registered.set()
    await until(lambda: "failed to initialize CSINode: " in (rig.state.fault() or ""))
    rig.api.fake.faults.clear()
    await until(lambda: rig.state.fault() is None)
    assert reported == [True] and len(rig.api.all("csinodes", STORAGE)) == 1


def test_collision_names_both_values() -> None:
    assert topology_collisions(node(labels={"zone": "z"}), {"d": INFO}) == {}
    assert topology_collisions(node(labels={"zone": "other"}), {"d": INFO, "e": DriverNodeInfo("x")}) == {
        "d": 'detected topology value collision: driver reported "zone":"z" but existing label is "zone":"other"'
    }


async def test_driver_that_would_move_the_node_is_not_published_until_it_fits(rig: Rig) -> None:
    labels = {"zone": "other"}
    rig.nodes.append(from_builtins(rig.api.put("nodes", "n", "", metadata={"name": "n", "labels": labels}), Node))
    rig.reporter.installed("d", INFO)
    rig.reporter.installed("e", DriverNodeInfo("node-e"))
    rig.registered.set()
    await until(lambda: drivers(rig) == ["e"])
    assert rig.api.get("nodes", "n", namespace="")["metadata"]["labels"] == labels
    rig.nodes.append(node(labels={"zone": "z"}))
    await until(lambda: sorted(drivers(rig)) == ["d", "e"])


async def test_driver_is_published_while_another_one_waits_for_its_retry() -> None:
    """A refused driver is tried again after up to a minute; the clock of this test never gets there."""
    async with fake_api() as api:
        there = from_builtins(api.put("nodes", "n", "", metadata={"name": "n", "labels": {"zone": "other"}}), Node)
        registered, state = asyncio.Event(), CsiNodeState()
        registered.set()
        clock = VirtualClock()
        reporter = CsiNodeReporter(
            client=api.client,
            node=lambda: there,
            registered=registered,
            replaced=Callbacks(),
            state=state,
            installed=Callbacks(),
            removed=Callbacks(),
            clock=clock,
        )
        reporter.installed("d", INFO)
        async with running(reporter.run()):
            await until(lambda: clock.sleepers == 1)
            reporter.installed("e", DriverNodeInfo("node-e"))
            await until(lambda: [each["spec"].get("drivers", ()) for each in api.all("csinodes", STORAGE)] != [()])
            (found,) = api.all("csinodes", STORAGE)
            assert [driver["name"] for driver in found["spec"]["drivers"]] == ["e"]


@pytest.mark.parametrize(("request_", "status"), [("PATCH .*/nodes/n", 422), ("PUT .*/csinodes/n", 403)])
async def test_driver_that_the_api_server_refuses_keeps_no_other_from_the_cluster(request_: str, status: int) -> None:
    """The refused one is tried again later; the clock of this test never gets there."""
    async with fake_api() as api:
        there = from_builtins(api.put("nodes", "n", ""), Node)
        # The first request is for all drivers, the second one for the first driver.
        api.fake.faults.append(Fault(request_, status=status, message="no such label", times=2))
        registered, state, clock = asyncio.Event(), CsiNodeState(), VirtualClock()
        registered.set()
        reporter = CsiNodeReporter(
            client=api.client,
            node=lambda: there,
            registered=registered,
            replaced=Callbacks(),
            state=state,
            clock=clock,
            installed=Callbacks(),
            removed=Callbacks(),
        )
        for name in ("a", "b", "c"):
            reporter.installed(name, DriverNodeInfo(f"node-{name}"))
        async with running(reporter.run()):
            await until(lambda: clock.sleepers == 1)
        (found,) = api.all("csinodes", STORAGE)
        assert [driver["name"] for driver in found["spec"].get("drivers", ())] == ["b", "c"]
        ids = api.get("nodes", "n", namespace="")["metadata"]["annotations"][NODE_IDS]
        assert json.loads(ids) == {"b": "node-b", "c": "node-c"}
        assert state.fault() is None


async def test_drivers_come_and_go(rig: Rig) -> None:
    made = rig.api.put("nodes", "n", namespace="")
    rig.reporter.installed("d", INFO)
    rig.nodes.append(from_builtins(made, Node))
    rig.registered.set()
    await until(lambda: drivers(rig) == ["d"])
    there = rig.api.get("nodes", "n", namespace="")["metadata"]
    assert json.loads(there["annotations"][NODE_IDS]) == {"d": "node-1"} and there["labels"]["zone"] == "z"
    rig.nodes.append(from_builtins(rig.api.get("nodes", "n", namespace=""), Node))
    rig.api.fake.faults.append(Fault("PUT .*csinodes", status=500))
    rig.reporter.removed("d")
    await until(lambda: not drivers(rig))
    await until(lambda: NODE_IDS not in rig.api.get("nodes", "n", namespace="")["metadata"].get("annotations", {}))


async def test_object_is_published_again_for_another_node_object(rig: Rig) -> None:
    """The API server deletes the CSINode with its owner, the former Node object."""
    rig.reporter.installed("d", INFO)
    rig.nodes.append(from_builtins(rig.api.put("nodes", "n", namespace=""), Node))
    rig.registered.set()
    await until(lambda: drivers(rig) == ["d"])
    rig.api.fake.store.delete(Place(STORAGE, "csinodes", "", "n"), "", None)
    rig.api.fake.store.delete(Place("/api/v1", "nodes", "", "n"), "", None)
    rig.nodes.append(from_builtins(rig.api.put("nodes", "n", namespace=""), Node))
    rig.replaced()
    await until(lambda: drivers(rig) == ["d"])
    (found,) = rig.api.all("csinodes", STORAGE)
    assert [owner["uid"] for owner in found["metadata"]["ownerReferences"]] == [rig.nodes[-1].metadata.uid]
    there = rig.api.get("nodes", "n", namespace="")["metadata"]
    assert json.loads(there["annotations"][NODE_IDS]) == {"d": "node-1"} and there["labels"]["zone"] == "z"

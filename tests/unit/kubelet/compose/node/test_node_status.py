"""The node's current state for the Node object, gathered from several stages."""

from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

from msgspec.structs import replace

from pykubelet.base.clock import Clock
from pykubelet.base.errors import Transient
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.actuate.host import NodeFacts, NodeOptions
from pykubelet.kubelet.actuate.host.addresses import NodeAddresses
from pykubelet.kubelet.compose.node.local_node import LocalNode
from pykubelet.kubelet.compose.node.local_node_builder import NodeBuilder
from pykubelet.kubelet.compose.node.node_status import NodeHealth, NodeStatusDeps, NodeStatusReader
from pykubelet.kubelet.config import KubeletConfiguration, Settings
from pykubelet.kubelet.report.node import PressureConditions
from pykubelet.kubelet.types.runtime import RuntimeConditions
from pykubelet.kubelet.types.storage import VolumesInUse
from pykubelet.models.core_v1 import Node
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.models.scalars import time_from_unix
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.clock import VirtualClock

IMAGE = pb.Image(id="sha256:1", repo_tags=["app:1"], repo_digests=["app@sha256:1"], size=7)


class Rig:
    """A reader over a machine whose state the test sets."""

    def __init__(self, root: Path) -> None:
        self.clock = VirtualClock()
        self.settings = Settings("one", KubeletConfiguration(max_pods=9), "unix:///none", root_dir=root)
        self.conditions = RuntimeConditions(runtime_ready=True, network_ready=True)
        self.pleg_fault: str | None = None
        self.pressure: set[str] = set()
        self.images: Any = create_autospec(CriClient, instance=True)
        self.images.list_images.return_value = [IMAGE]
        self.addresses: Any = create_autospec(NodeAddresses, instance=True)
        self.addresses.read.return_value = ("10.0.0.1",)
        self.node = NodeFacts(NodeOptions(name="one", ips=(), allocatable={}, resolv_conf=""))
        self.reader = NodeStatusReader(self.deps(self.clock))

    def deps(self, clock: Clock) -> NodeStatusDeps:
        return NodeStatusDeps(
            settings=lambda: self.settings,
            node=self.node,
            image_cri=self.images,
            addresses=self.addresses,
            health=NodeHealth(
                conditions=lambda: self.conditions, pleg_fault=lambda: self.pleg_fault, shutdown_fault=lambda: None
            ),
            pressure=lambda: self.pressure,
            volumes_in_use=VolumesInUse,
            clock=clock,
        )


async def test_state_is_that_of_machine_runtime_and_configuration(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.pressure = {"DiskPressure"}
    version = pb.VersionResponse(runtime_name="containerd", runtime_version="2.1")
    rig.node.runtime.learn(version, pb.StatusResponse(runtime_handlers=[pb.RuntimeHandler(name="runc")]))
    state = await rig.reader.read()
    assert state.capacity["pods"] == state.allocatable["pods"] == "9"
    assert state.addresses is not None
    assert [(each.type, each.address) for each in state.addresses] == [("InternalIP", "10.0.0.1"), ("Hostname", "one")]
    assert (state.info.container_runtime_version, state.info.operating_system) == ("containerd://2.1", "linux")
    assert [handler.name for handler in state.handlers] == ["runc"]
    assert (state.faults, state.pressure, state.port) == ((), PressureConditions(disk=True), 0)
    assert [(image.names, image.size) for image in state.images] == [(("app@sha256:1", "app:1"), 7)]


async def test_unknown_addresses_leave_the_reported_ones(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.addresses.read.return_value = None
    assert (await rig.reader.read()).addresses is None


async def test_faults_count_from_the_age_of_the_agent(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.pleg_fault = "no list yet"
    assert (await rig.reader.read()).faults == ()
    await rig.clock.advance(10)
    assert (await rig.reader.read()).faults == ("PLEG is not healthy: no list yet",)
    rig.conditions = RuntimeConditions(message="away", responding=False)
    assert (await rig.reader.read()).faults[0] == "container runtime is down: away"


async def test_images_stay_until_the_next_list_and_after_an_error(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.images.list_images.side_effect = Transient("away")
    assert (await rig.reader.read()).images == ()
    rig.images.list_images.side_effect = None
    assert len((await rig.reader.read()).images) == 1, "an error is tried again at the next status"
    rig.images.list_images.return_value = []
    assert len((await rig.reader.read()).images) == 1
    await rig.clock.advance(60)
    assert (await rig.reader.read()).images == ()
    assert rig.images.list_images.call_count == 3


async def test_node_without_a_cluster_is_made_on_request_and_its_conditions_keep_their_times(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    local = LocalNode(name="one", registered=lambda: None, reader=rig.reader, clock=rig.clock)
    began = rig.clock.now()
    await rig.clock.advance(100)
    first = await local.read()
    await rig.clock.advance(100)
    second = await local.read()
    assert first.metadata.name == "one"
    assert first.metadata.creation_timestamp == second.metadata.creation_timestamp == time_from_unix(began)
    for one, other in zip(first.status.conditions, second.status.conditions, strict=True):
        assert one.last_transition_time == other.last_transition_time == time_from_unix(began + 100)
        assert other.last_heartbeat_time == time_from_unix(began + 200)


async def test_builder_makes_nodes_with_the_labels_that_every_node_has(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    node = await NodeBuilder(name="one", reader=rig.reader, clock=rig.clock, began=5.0).build()
    assert node.metadata.labels["kubernetes.io/hostname"] == "one"
    assert node.metadata.labels["kubernetes.io/arch"] == rig.reader.architecture()
    assert node.metadata.creation_timestamp == time_from_unix(5.0)


async def test_node_of_a_cluster_is_the_one_of_the_api_server(tmp_path: Path) -> None:
    rig, there = Rig(tmp_path), Node(metadata=ObjectMeta(name="one", uid="u"))
    local = LocalNode(name="one", registered=lambda: there, reader=rig.reader, clock=rig.clock)
    assert await local.read() is there
    assert rig.images.list_images.call_count == 0


async def test_settings_in_force_count(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    await rig.reader.read()
    rig.settings = replace(rig.settings, config=KubeletConfiguration(max_pods=3))
    assert (await rig.reader.read()).capacity["pods"] == "3"

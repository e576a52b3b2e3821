"""The Node object and its lease."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.apiclient import Forbidden
from pykubelet.apiclient.resources import Target
from pykubelet.base.concurrency.callbacks import Callbacks
from pykubelet.base.errors import Conflict, Invalid, NotFound
from pykubelet.base.units import Bytes
from pykubelet.kubelet.report.node import (
    CsiNodeState,
    Image,
    LeaseRenewer,
    NodeConfig,
    NodeDeps,
    NodeReporter,
    NodeState,
    PressureConditions,
    check_labels,
    host_ips,
)
from pykubelet.kubelet.report.node.lease import renewal_period
from pykubelet.kubelet.report.node.plan.node_object import node_status
from pykubelet.kubelet.types.ids import PodRef
from pykubelet.kubelet.types.storage import VolumesInUse
from pykubelet.models import core_v1 as core
from pykubelet.models.codec import from_builtins
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.fake_api import Fault
from pykubelet.testing.fake_api.store import Place
from pykubelet.testing.telemetry import telemetry
from pykubelet.testing.wait import settle, until
from tests.unit.kubelet.apitools import Api, fake_api, running

FACTS = NodeState(
    capacity={"cpu": "2", "memory": "4Gi", "pods": "110"},
    allocatable={"cpu": "2", "memory": "3Gi", "pods": "110"},
    addresses=(core.NodeAddress(type="InternalIP", address="10.0.0.1"),),
    info=core.NodeSystemInfo(kubelet_version="v1.36.0"),
)
CONFIG = NodeConfig("n", labels={"pool": "a"}, taints=(core.Taint(key="k", effect="NoSchedule"),), update_every=0.05)
STARTING = ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID", "NodeReady"]
LEASES = "/apis/coordination.k8s.io/v1"


@dataclass
class Machine:
    facts: NodeState = FACTS
    reads: int = 0

    async def read(self) -> NodeState:
        self.reads += 1
        return self.facts

    async def after_reads(self, count: int) -> None:
        """Wait until the facts were read so many times more; all but the last time, a report has followed."""
        enough = self.reads + count
        await until(lambda: self.reads >= enough)

    def architecture(self) -> str:
        return "amd64"


@dataclass
class Events:
    reasons: list[str] = field(default_factory=list)

    def event(
        self, pod: PodRef | None, event_type: str, reason: str, message: str, *, container: str = "", **more: object
    ) -> None:
        self.reasons.append(reason)


class NoStartup:
    """A measurement of the start-up that records nothing."""

    def registering(self) -> None: ...

    def registered(self) -> None: ...

    def ready(self) -> None: ...


@dataclass
class Rig:
    api: Api
    machine: Machine
    events: Events
    reporter: NodeReporter

    @property
    def node(self) -> core.Node:
        return from_builtins(self.api.get("nodes", "n", ""), core.Node)

    def condition(self, kind: str = "Ready") -> core.NodeCondition | None:
        if not self.api.all("nodes"):
            return None
        return next((c for c in self.node.status.conditions if c.type == kind), None)

    def is_ready(self) -> bool:
        condition = self.condition()
        return condition is not None and condition.status == "True"

    @property
    def patches(self) -> int:
        return self.api.fake.count("PATCH")


def make(
    api: Api,
    config: NodeConfig = CONFIG,
    addresses: Callable[[tuple[core.NodeAddress, ...]], None] | None = None,
    storage: CsiNodeState | None = None,
    changes: tuple[Callbacks[[]], ...] = (),
) -> Rig:
    machine, events = Machine(), Events()
    if storage is None:
        storage = CsiNodeState()
        storage.done()
    return Rig(
        api,
        machine,
        events,
        NodeReporter(
            NodeDeps(
                client=api.client,
                facts=machine,
                addresses=addresses or (lambda _: None),
                storage=storage,
                changes=changes,
                telemetry=telemetry(api.clock, NoStartup(), events=events),
            ),
            config,
        ),
    )


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with fake_api() as made:
        yield made


async def test_a_node_registers_with_all_it_has(api: Api) -> None:
    rig = make(api, replace(CONFIG, provider_id="cloud://1"))
    async with running(rig.reporter.run()):
        await until(rig.reporter.registered.is_set)
    node = rig.node
    assert node.metadata.labels == {
        "pool": "a",
        "kubernetes.io/hostname": "n",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
    }
    assert node.metadata.annotations == {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
    assert [t.key for t in node.spec.taints] == ["k"] and node.spec.provider_id == "cloud://1"
    assert rig.is_ready() and rig.events.reasons == STARTING
    assert node.status.declared_features == tuple(sorted(node.status.declared_features)) != ()


@pytest.mark.parametrize("watched", [False, True], ids=["", "a watch is faster"])
async def test_a_node_that_is_there_is_put_right(api: Api, watched: bool) -> None:
    meta = {"name": "n", "labels": {"pool": "b", "theirs": "x", "kubernetes.io/arch": "abacus"}}
    status = {"nodeInfo": {"bootID": "before"}}
    api.put("nodes", "n", "", metadata=meta, spec={"unschedulable": True}, status=status)
    rig = make(api)
    if watched:
        rig.reporter.node_updated(rig.node)
    async with running(rig.reporter.run()):
        await until(lambda: rig.is_ready() and "NodeReady" in rig.events.reasons)
    assert rig.node.metadata.labels["kubernetes.io/hostname"] == "n"
    labels = rig.node.metadata.labels
    assert (labels["kubernetes.io/arch"], labels["pool"], labels["theirs"]) == ("amd64", "b", "x")
    assert rig.events.reasons == ["NodeNotSchedulable", "Rebooted", *STARTING]
    assert rig.node.spec.unschedulable and not rig.node.spec.taints, "cordon and taints are not the agent's"


async def test_nothing_is_sent_without_news(api: Api) -> None:
    rig = make(api)
    async with running(rig.reporter.run()):
        await until(lambda: rig.is_ready())
        await rig.machine.after_reads(4)
        assert rig.patches == 0
        since = rig.condition()
        rig.machine.facts = replace(
            FACTS, faults=("container runtime is down",), pressure=PressureConditions(disk=True)
        )
        rig.reporter.poke()
        await until(lambda: not rig.is_ready())
        assert rig.patches == 1
        # They follow the answer to the patch.
        await until(lambda: "NodeNotReady" in rig.events.reasons)
    ready, disk = rig.condition(), rig.condition("DiskPressure")
    assert ready is not None and disk is not None and since is not None
    assert (ready.reason, ready.message) == ("KubeletNotReady", "container runtime is down")
    assert (disk.status, disk.reason) == ("True", "KubeletHasDiskPressure")
    assert rig.events.reasons == [*STARTING, "NodeHasDiskPressure", "NodeNotReady"]


@pytest.mark.parametrize("method", ["create", "patch"])
async def test_a_node_that_goes_while_it_is_reported_is_registered_again(
    api: Api, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = make(api)
    call = getattr(api.client, method)
    lost: list[core.Node] = []

    async def answered_late(*args: Any) -> Any:
        """The node goes, and that is watched, before the answer about it is here."""
        node = await call(*args)
        if not lost:
            lost.append(node)
            api.fake.store.delete(Place("/api/v1", "nodes", "", "n"), "", None)
            rig.reporter.node_deleted()
        return node

    monkeypatch.setattr(api.client, method, answered_late)
    async with running(rig.reporter.run()):
        await until(lambda: rig.is_ready() or bool(lost))
        if method == "patch":
            rig.machine.facts = replace(FACTS, pressure=PressureConditions(disk=True))
            rig.reporter.poke()
        await until(lambda: bool(lost) and rig.is_ready() and rig.node.metadata.uid != lost[0].metadata.uid)


async def test_cordons_are_reported(api: Api) -> None:
    rig = make(api)
    async with running(rig.reporter.run()):
        await until(lambda: rig.is_ready() and rig.events.reasons == STARTING)
        for cordoned in (True, False):
            api.change("nodes", "n", "", spec={"unschedulable": cordoned})
            rig.reporter.node_updated(rig.node)
            rig.reporter.node_updated(rig.node)
    assert rig.events.reasons == [*STARTING, "NodeNotSchedulable", "NodeSchedulable"]


async def test_in_a_cloud_its_controller_gives_the_addresses(api: Api) -> None:
    host = core.NodeAddress(type="Hostname", address="n")
    rig = make(api, replace(CONFIG, external_cloud=True))
    rig.machine.facts = replace(FACTS, addresses=(*(FACTS.addresses or ()), host))
    async with running(rig.reporter.run()):
        await until(rig.reporter.registered.is_set)
        assert [t.key for t in rig.node.spec.taints] == ["k", "node.cloudprovider.kubernetes.io/uninitialized"]
        assert rig.node.status.addresses == (host,)
        api.change("nodes", "n", "", status={"addresses": [{"type": "ExternalIP", "address": "192.0.2.9"}]})
        rig.reporter.node_updated(rig.node)
        rig.machine.facts = replace(rig.machine.facts, pressure=PressureConditions(pids=True))
        rig.reporter.poke()
        await until(lambda: (found := rig.condition("PIDPressure")) is not None and found.status == "True")
    assert [a.type for a in rig.node.status.addresses] == ["ExternalIP"]


@pytest.mark.parametrize(
    ("reported", "found"),
    [
        ("", ()),
        ("Hostname=n", ()),
        ("Hostname=n ExternalIP=192.0.2.9 InternalIP=10.0.0.1", ("10.0.0.1",)),
        ("ExternalIP=192.0.2.9", ("192.0.2.9",)),
        ("InternalIP=fd00::1 InternalIP=10.0.0.1 InternalIP=10.0.0.2", ("fd00::1", "10.0.0.1")),
        ("InternalIP=10.0.0.1 ExternalIP=2001:db8::1", ("10.0.0.1", "2001:db8::1")),
    ],
)
def test_the_addresses_that_pods_are_shown(reported: str, found: tuple[str, ...]) -> None:
    pairs = (each.split("=") for each in reported.split())
    assert host_ips([core.NodeAddress(type=kind, address=address) for kind, address in pairs]) == found


async def test_a_cloud_gets_the_addresses_that_a_person_gave(api: Api) -> None:
    rig = make(api, replace(CONFIG, external_cloud=True, given_ips=("10.0.0.1", "fd00::1"), has_given_ips=True))
    async with running(rig.reporter.run()):
        await until(rig.reporter.registered.is_set)
    assert rig.node.metadata.annotations["alpha.kubernetes.io/provided-node-ip"] == "10.0.0.1,fd00::1"
    assert rig.node.status.addresses == FACTS.addresses


async def test_a_node_created_ahead_of_time_is_used_without_the_right_to_create(api: Api) -> None:
    rig = make(api)
    api.fake.faults = [Fault("POST .*/nodes", status=403, message="not you", times=1000)]
    async with running(rig.reporter.run()):
        await until(lambda: api.fake.count("POST") >= 2)
        assert not rig.reporter.registered.is_set()
        api.put("nodes", "n", "")
        await until(rig.is_ready)
    assert rig.node.metadata.labels["kubernetes.io/os"] == "linux"


async def test_refused_registration_of_a_missing_node_is_reported(api: Api) -> None:
    rig = make(api)
    api.fake.faults = [Fault("POST .*/nodes", status=403, message="not you")]
    with pytest.raises(Forbidden, match="not you"):
        await rig.reporter.report()


async def test_a_node_is_not_ready_before_its_csi_node_is_there(api: Api) -> None:
    state = CsiNodeState()
    rig = make(api, storage=state, changes=(state.initialized,))
    async with running(rig.reporter.run()):
        await until(lambda: rig.condition() is not None)
        found = rig.condition()
        assert found is not None and (found.status, found.reason) == ("False", "KubeletNotReady")
        assert found.message == "CSINode is not yet initialized"
        state.failed(Invalid("no rights"))
        rig.reporter.poke()
        await until(lambda: rig.condition().message == "failed to initialize CSINode: no rights")  # type: ignore[union-attr]
        state.done()
        await until(rig.is_ready)
        state.failed(Invalid("a later error"))
    assert state.fault() is None


async def test_node_that_was_ready_stays_so_while_a_new_agent_looks_for_its_csi_node(api: Api) -> None:
    first = make(api)
    async with running(first.reporter.run()):
        await until(first.is_ready)
    state = CsiNodeState()
    rig = make(api, storage=state, changes=(state.initialized,))
    for _ in range(3):
        await rig.reporter.report()
        assert rig.is_ready()
    state.failed(Invalid("no rights"))
    await rig.reporter.report()
    assert not rig.is_ready(), "the search has failed"
    state.done()
    await rig.reporter.report()
    assert rig.is_ready()


async def test_node_that_was_ready_is_not_so_when_its_csi_node_is_not_found_in_time(api: Api) -> None:
    first = make(api)
    async with running(first.reporter.run()):
        await until(first.is_ready)
    rig = make(api, storage=CsiNodeState())
    await rig.reporter.report()
    api.clock.shift += 60
    await rig.reporter.report()
    assert rig.is_ready()
    api.clock.shift += 81
    await rig.reporter.report()
    found = rig.condition()
    assert found is not None and (found.status, found.message) == ("False", "CSINode is not yet initialized")


async def test_the_addresses_of_each_status_are_reported(api: Api) -> None:
    reported: list[tuple[core.NodeAddress, ...]] = []
    rig = make(api, addresses=reported.append)
    other = (core.NodeAddress(type="InternalIP", address="10.0.0.2"),)
    async with running(rig.reporter.run()):
        await until(rig.is_ready)
        assert set(reported) == {FACTS.addresses}
        rig.machine.facts = replace(FACTS, addresses=other)
        rig.reporter.poke()
        await until(lambda: reported[-1] == other)


async def test_unknown_addresses_leave_the_reported_ones(api: Api) -> None:
    rig = make(api)
    rig.machine.facts = replace(FACTS, addresses=None)
    async with running(rig.reporter.run()):
        await until(rig.is_ready)
        assert rig.node.status.addresses == ()
        rig.machine.facts = FACTS
        rig.reporter.poke()
        await until(lambda: rig.node.status.addresses == FACTS.addresses)
        patches = rig.patches
        rig.machine.facts = replace(FACTS, addresses=None, faults=("broken",))
        rig.reporter.poke()
        await until(lambda: rig.patches > patches)
        assert rig.node.status.addresses == FACTS.addresses


async def test_conditions_set_unknown_by_the_control_plane_are_corrected(api: Api) -> None:
    rig = make(api)
    async with running(rig.reporter.run()):
        await until(lambda: rig.is_ready())
        lost = [{"type": "Ready", "status": "Unknown"}, {"type": "theirs", "status": "True"}]
        api.change("nodes", "n", "", status={"conditions": lost})
        rig.reporter.node_updated(rig.node)
        await until(lambda: rig.is_ready())
    assert rig.condition("theirs") is not None


async def test_conditions_that_a_rival_overwrites_at_once_are_corrected_once_a_period(api: Api) -> None:
    """Two agents of the same node name would else answer each other as fast as the API server permits."""
    period = 10.0**6
    rig = make(api, replace(CONFIG, update_every=period))

    def overwrite() -> None:
        api.change("nodes", "n", "", status={"conditions": [{"type": "Ready", "status": "False"}]})
        rig.reporter.node_updated(rig.node)

    async with running(rig.reporter.run()):
        await until(lambda: rig.is_ready() and rig.events.reasons == STARTING)
        for patches in (1, 3):
            overwrite()
            await until(lambda: rig.is_ready() and rig.patches == patches)  # noqa: B023 - at once
            await settle()
            reads = rig.machine.reads
            for _ in range(3):
                overwrite()
                await settle()
            assert rig.machine.reads == reads
            rig.reporter.poke()
            await until(rig.is_ready)
            await settle()
            api.clock.shift += period


async def test_volumes_in_use_that_others_have_overwritten_are_sent_again(api: Api) -> None:
    """Until then the controller could detach them."""
    rig = make(api)
    rig.machine.facts = replace(FACTS, volumes_in_use=VolumesInUse(("a",)))
    async with running(rig.reporter.run()):
        await until(lambda: rig.is_ready())
        api.change("nodes", "n", "", status={**api.get("nodes", "n", "")["status"], "volumesInUse": []})
        rig.reporter.node_updated(rig.node)
        await until(lambda: rig.node.status.volumes_in_use == ("a",))


async def test_conditions_set_unknown_during_a_request_are_corrected(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = make(api)
    create = api.client.create

    async def slowly(target: Target[core.Node], node: core.Node) -> core.Node:
        answer = await create(target, node)
        api.change("nodes", "n", "", status={"conditions": [{"type": "Ready", "status": "Unknown"}]})
        rig.reporter.node_updated(rig.node)
        return answer

    monkeypatch.setattr(api.client, "create", slowly)
    async with running(rig.reporter.run()):
        await until(lambda: rig.patches == 1 and rig.is_ready())


async def test_an_older_version_from_a_late_watch_replaces_no_newer_one(api: Api) -> None:
    """The Node object was read again for admission, then the watch brings the versions in between."""
    rig = make(api)
    async with running(rig.reporter.run()):
        await until(lambda: rig.is_ready())
        api.change("nodes", "n", "", metadata={"labels": {"first": "yes"}})
        between = rig.node
        api.change("nodes", "n", "", metadata={"labels": {"first": "yes", "second": "yes"}})
        assert rig.reporter.node_updated(rig.node)
        assert not rig.reporter.node_updated(between)
        node = rig.reporter.current()
        assert node is not None
        assert node.metadata.labels.items() >= {"first": "yes", "second": "yes"}.items()


async def test_a_node_that_was_deleted_registers_again(api: Api) -> None:
    rig = make(api)
    async with running(rig.reporter.run()):
        await until(lambda: rig.is_ready())
        first = rig.node.metadata.uid
        api.fake.store.delete(Place("/api/v1", "nodes", "", "n"), "", None)
        rig.reporter.node_deleted()
        await until(lambda: bool(api.all("nodes")))
    assert rig.node.metadata.uid != first


async def test_node_that_others_have_created_again_is_put_right(api: Api) -> None:
    """The watch shows the new object only: it was interrupted meanwhile."""
    rig = make(api)
    async with running(rig.reporter.run()):
        await until(rig.is_ready)
        api.fake.store.delete(Place("/api/v1", "nodes", "", "n"), "", None)
        api.put("nodes", "n", "", metadata={"name": "n", "labels": {"theirs": "x"}})
        rig.reporter.node_updated(rig.node)
        await until(lambda: rig.is_ready() and "kubernetes.io/hostname" in rig.node.metadata.labels)


@pytest.mark.parametrize("found_by", ["the answer to a report", "a watch after a failed report"])
async def test_node_that_others_have_created_again_is_put_right_whatever_shows_it_first(
    api: Api, found_by: str
) -> None:
    rig = make(api)
    await rig.reporter.report()
    api.fake.store.delete(Place("/api/v1", "nodes", "", "n"), "", None)
    rig.machine.facts = replace(FACTS, pressure=PressureConditions(disk=True))
    if found_by == "a watch after a failed report":
        with pytest.raises(NotFound):
            await rig.reporter.report()
    api.put("nodes", "n", "", metadata={"name": "n", "labels": {"theirs": "x"}})
    if found_by == "the answer to a report":
        await rig.reporter.report()
    rig.reporter.node_updated(rig.node)
    await rig.reporter.report()
    assert rig.node.metadata.labels.items() >= {"kubernetes.io/hostname": "n", "theirs": "x"}.items()


async def test_other_node_object_is_an_event_once_it_is_registered(api: Api) -> None:
    rig = make(api)
    seen: list[str] = []

    def note() -> None:
        known = rig.reporter.current()
        seen.append(known.metadata.uid if known is not None else "")

    rig.reporter.replaced.subscribe(note)
    await rig.reporter.report()
    await rig.reporter.report()
    assert not seen
    expected = []
    for is_created_by_others in (False, True):
        api.fake.store.delete(Place("/api/v1", "nodes", "", "n"), "", None)
        rig.reporter.node_deleted()
        if is_created_by_others:
            api.put("nodes", "n", "")
            rig.reporter.node_updated(rig.node)
        await rig.reporter.report()
        expected.append(rig.node.metadata.uid)
        assert seen == expected


async def test_node_is_put_right_after_a_failed_attempt(api: Api) -> None:
    old = {"example.com/gpu": "4"}
    status = {"capacity": old, "allocatable": old, "nodeInfo": {"bootID": "before"}}
    api.put("nodes", "n", "", status=status)
    rig = make(api)
    api.fake.faults = [Fault("PATCH .*/nodes/n/status", status=409, times=2)]
    for _ in range(2):
        with pytest.raises(Conflict):
            await rig.reporter.report()
    await rig.reporter.report()
    assert rig.is_ready()
    assert (rig.node.status.capacity["example.com/gpu"], rig.node.status.allocatable["example.com/gpu"]) == ("0", "0")
    assert rig.events.reasons.count("Rebooted") == 1


async def test_late_answer_about_a_former_node_object_replaces_no_later_one(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = make(api)
    await rig.reporter.report()
    patch = api.client.patch

    async def answered_late(*args: Any) -> Any:
        answer = await patch(*args)
        api.fake.store.delete(Place("/api/v1", "nodes", "", "n"), "", None)
        api.put("nodes", "n", "")
        rig.reporter.node_updated(rig.node)
        return answer

    rig.machine.facts = replace(FACTS, pressure=PressureConditions(disk=True))
    monkeypatch.setattr(api.client, "patch", answered_late)
    await rig.reporter.report()
    monkeypatch.undo()
    await rig.reporter.report()
    assert rig.node.metadata.labels["kubernetes.io/hostname"] == "n" and rig.is_ready()


async def test_late_answer_at_registration_undoes_no_cordon(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    first = make(api)
    await first.reporter.report()
    rig = make(api)
    get = api.client.get

    async def answered_late(target: Target[core.Node]) -> core.Node:
        answer = await get(target)
        api.change("nodes", "n", "", spec={"unschedulable": True})
        rig.reporter.node_updated(rig.node)
        return answer

    monkeypatch.setattr(api.client, "get", answered_late)
    await rig.reporter.report()
    rig.reporter.node_updated(rig.node)
    assert rig.events.reasons == ["NodeNotSchedulable", *STARTING]


async def test_node_that_is_not_registered_yet_may_be_missing(api: Api) -> None:
    rig = make(api)
    rig.reporter.node_missing()
    async with running(rig.reporter.run()):
        await until(rig.reporter.registered.is_set)  # not only the API server, also the reporter knows the node
        first = rig.node.metadata.uid
        api.fake.store.delete(Place("/api/v1", "nodes", "", "n"), "", None)
        rig.reporter.node_missing()
        await until(lambda: bool(api.all("nodes")))
    assert rig.node.metadata.uid != first


async def test_reporter_lacks_a_node_object_that_is_the_first_or_later_than_its_own(api: Api) -> None:
    rig = make(api)
    assert rig.reporter.lacks(core.Node())
    async with running(rig.reporter.run()):
        await until(lambda: rig.is_ready() and rig.reporter.current() == rig.node)
    known = rig.reporter.current()
    assert known is not None and not rig.reporter.lacks(known)
    api.change("nodes", "n", "", spec={"unschedulable": True})
    assert rig.reporter.lacks(rig.node)
    api.fake.store.delete(Place("/api/v1", "nodes", "", "n"), "", None)
    api.put("nodes", "n", "")
    other = rig.node
    assert rig.reporter.lacks(other), "it was created after the known one"
    rig.reporter.node_updated(other)
    assert not rig.reporter.lacks(known)


async def test_extended_resources_of_an_earlier_agent_become_zero_and_later_ones_stay(api: Api) -> None:
    """Their device plugins are gone; what people set while the agent runs is theirs."""
    old = {"example.com/gpu": "4", "hugepages-2Mi": "0", "kubernetes.io/batch": "3"}
    api.put("nodes", "n", "", status={"capacity": old, "allocatable": old})
    rig = make(api)
    async with running(rig.reporter.run()):
        await until(rig.is_ready)
        for found in (rig.node.status.capacity, rig.node.status.allocatable):
            assert (found["example.com/gpu"], found["kubernetes.io/batch"]) == ("0", "3")
        status = api.get("nodes", "n", "")["status"]
        api.change("nodes", "n", "", status={**status, "capacity": {**status["capacity"], "example.com/dongle": "4"}})
        rig.machine.facts = replace(FACTS, capacity={**FACTS.capacity, "cpu": "3"})
        rig.reporter.poke()
        await until(lambda: rig.node.status.capacity["cpu"] == "3")
        assert rig.node.status.capacity["example.com/dongle"] == "4"


async def test_registration_waits_for_the_api_server(api: Api) -> None:
    api.fake.faults = [Fault("POST /api/v1/nodes", status=500, times=5)]
    rig = make(api)
    async with running(rig.reporter.run()):
        await until(rig.reporter.registered.is_set)


async def test_a_node_that_may_not_register_waits_for_its_object(api: Api) -> None:
    rig = make(api, replace(CONFIG, register=False))
    async with running(rig.reporter.run()):
        await settle()
        assert not api.all("nodes")
        api.put("nodes", "n", "")
        labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        await until(lambda: rig.is_ready() and rig.node.metadata.labels == labels)  # no others, not even the host name


def test_transition_times_move_only_with_the_status() -> None:
    first = node_status(FACTS, core.NodeStatus(), CONFIG, 1000.0)
    second = node_status(FACTS, first, CONFIG, 2000.0)
    third = node_status(replace(FACTS, faults=("x",)), second, CONFIG, 3000.0)
    times = [
        [c.last_transition_time.timestamp() for c in s.conditions if c.last_transition_time] for s in (second, third)
    ]
    assert times == [[1000.0] * 4, [1000.0] * 3 + [3000.0]]


def test_volumes_reported_before_stay_in_use_while_the_records_on_disk_cannot_be_read() -> None:
    """The controller would detach volumes that an earlier agent has mounted."""
    before = core.NodeStatus(volumes_in_use=("a",))
    known = replace(FACTS, volumes_in_use=VolumesInUse(("b",)))
    assert node_status(known, before, CONFIG, 0.0).volumes_in_use == ("b",)
    unknown = replace(FACTS, volumes_in_use=VolumesInUse(("b",), is_complete=False))
    assert node_status(unknown, before, CONFIG, 0.0).volumes_in_use == ("a", "b")


def test_the_largest_images_are_shown() -> None:
    images = tuple(Image((f"i{size}", *(f"other{n}" for n in range(9))), Bytes(size)) for size in range(1, 80))
    shown = node_status(replace(FACTS, images=(*images, Image((), Bytes(99)))), core.NodeStatus(), CONFIG, 0.0).images
    assert len(shown) == 50 and shown[0].size_bytes == 79 and len(shown[0].names) == 5
    assert (
        len(node_status(replace(FACTS, images=images), core.NodeStatus(), replace(CONFIG, max_images=-1), 0).images)
        == 79
    )


@pytest.mark.parametrize(
    ("label", "allowed"),
    [
        ("pool", True),
        ("example.com/x", True),
        ("node.kubernetes.io/x", True),
        ("sub.kubelet.kubernetes.io/x", True),
        ("topology.kubernetes.io/zone", True),
        ("kubernetes.io/x", False),
        ("node-role.kubernetes.io/master", False),
        ("a.k8s.io/x", False),
    ],
)
def test_labels_that_a_node_may_have(label: str, allowed: bool) -> None:
    if allowed:
        check_labels([label])
    else:
        with pytest.raises(Invalid, match=label):
            check_labels([label])


def test_lease_is_renewed_every_quarter_of_its_duration() -> None:
    assert renewal_period(40) == 10.0


async def test_lease_is_created_and_renewed(api: Api) -> None:
    api.put("nodes", "n", "")
    renewer = LeaseRenewer(client=api.client, node="n", duration=40, clock=api.clock)
    assert await renewer.renew()
    lease = api.get("leases", "n", "kube-node-lease", LEASES)
    assert lease["spec"]["holderIdentity"] == "n" and lease["spec"]["leaseDurationSeconds"] == 40
    assert lease["metadata"]["ownerReferences"][0]["uid"] == api.get("nodes", "n", "")["metadata"]["uid"]
    assert await renewer.renew()
    assert api.get("leases", "n", "kube-node-lease", LEASES)["spec"]["renewTime"] > lease["spec"]["renewTime"]
    assert api.fake.count("PUT") == 1


async def test_a_lease_always_belongs_to_its_node(api: Api) -> None:
    renewer = LeaseRenewer(client=api.client, node="n", duration=40, clock=api.clock)
    async with running(renewer.run()):
        await until(lambda: api.fake.count("GET /api/v1/nodes") > 0)
        assert api.all("leases", LEASES) == []
        api.put("nodes", "n", "")
        await until(lambda: api.all("leases", LEASES) != [])
    api.change("leases", "n", "kube-node-lease", LEASES, metadata={"ownerReferences": None})
    assert await LeaseRenewer(client=api.client, node="n", duration=40, clock=api.clock).renew()
    (owner,) = api.get("leases", "n", "kube-node-lease", LEASES)["metadata"]["ownerReferences"]
    assert owner["uid"] == api.get("nodes", "n", "")["metadata"]["uid"]


async def test_lease_changed_or_deleted_by_others_is_recovered(api: Api) -> None:
    api.put("nodes", "n", "")
    renewer = LeaseRenewer(client=api.client, node="n", duration=40, clock=api.clock)
    assert await renewer.renew()
    api.change("leases", "n", "kube-node-lease", LEASES, spec={"holderIdentity": "other"})
    assert await renewer.renew()
    assert api.get("leases", "n", "kube-node-lease", LEASES)["spec"]["holderIdentity"] == "n"
    api.fake.store.delete(Place(LEASES, "leases", "kube-node-lease", "n"), "", None)
    assert await renewer.renew()
    assert api.get("leases", "n", "kube-node-lease", LEASES)


async def test_lease_is_renewed_on_time_when_the_wall_clock_jumps(api: Api) -> None:
    clock = VirtualClock()
    api.put("nodes", "n", "")
    renewer = LeaseRenewer(client=api.client, node="n", duration=40, clock=clock)
    async with running(renewer.run()):
        for jump in (0.0, 86400.0, -200000.0):
            before = api.fake.count("PUT") + api.fake.count("POST")
            clock.jump_wall(jump)
            await until(lambda: clock.sleepers > 0)
            await clock.advance(11.0)
            await until(lambda: api.fake.count("PUT") + api.fake.count("POST") > before)  # noqa: B023 - at once


async def test_changed_settings_of_the_reports_hold_at_once() -> None:
    async with fake_api() as api:
        slow = replace(CONFIG, update_every=3600.0)
        rig = make(api, slow)
        rig.machine.facts = replace(FACTS, images=tuple(Image((f"a:{i}",), Bytes(i)) for i in range(4)))
        async with running(rig.reporter.run()):
            await until(rig.is_ready)
            assert len(rig.node.status.images) == 4
            rig.reporter.reconfigure(replace(slow, max_images=2))
            await until(lambda: len(rig.node.status.images) == 2)


async def test_node_labels_changed_while_the_agent_runs_are_restored(api: Api) -> None:
    rig = make(api)
    async with running(rig.reporter.run()):
        await until(rig.is_ready)
        labels = {**rig.node.metadata.labels, "kubernetes.io/os": "dummy", "theirs": "x"}
        del labels["kubernetes.io/arch"]
        api.change("nodes", "n", "", metadata={"labels": {**labels, "kubernetes.io/arch": None}})
        rig.reporter.node_updated(rig.node)
        assert rig.node.metadata.labels["kubernetes.io/os"] == "dummy"
        rig.reporter.poke()
        await until(lambda: rig.node.metadata.labels["kubernetes.io/os"] == "linux")
    assert rig.node.metadata.labels.items() >= {"kubernetes.io/arch": "amd64", "theirs": "x"}.items()


async def test_node_deleted_while_its_labels_are_restored_registers_again(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = make(api)
    patch = api.client.patch
    async with running(rig.reporter.run()):
        await until(rig.is_ready)
        first = rig.node.metadata.uid
        api.change("nodes", "n", "", metadata={"labels": {"kubernetes.io/os": "dummy"}})
        rig.reporter.node_updated(rig.node)

        async def too_late(*args: Any) -> Any:
            monkeypatch.setattr(api.client, "patch", patch)
            api.fake.store.delete(Place("/api/v1", "nodes", "", "n"), "", None)
            return await patch(*args)

        monkeypatch.setattr(api.client, "patch", too_late)
        rig.reporter.poke()
        await until(lambda: bool(api.all("nodes")) and rig.node.metadata.uid != first)
        await until(rig.is_ready)
    assert rig.node.metadata.labels["kubernetes.io/os"] == "linux"

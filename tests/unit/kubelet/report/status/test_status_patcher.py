"""Delivery of statuses to the API server."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.apiclient.resources import PODS
from pykubelet.kubelet.report.status.plan.patch import agent_part, status_patch
from pykubelet.kubelet.report.status.status_patcher import PatcherDeps, StatusPatcher
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.models import core_v1 as core
from pykubelet.models.codec import from_builtins
from pykubelet.testing.fake_api import Fault
from pykubelet.testing.fake_api.patches import strategic_patch
from pykubelet.testing.statuses import SettableStatuses
from pykubelet.testing.telemetry import telemetry
from pykubelet.testing.wait import settle, until
from tests.unit.kubelet.apitools import Api, fake_api, running
from tests.unit.kubelet.report.pods import pod, with_meta
from tests.unit.kubelet.report.status.build import Node

TARGET = PODS.at("ns", "web")
RUNNING = core.PodStatus(
    phase="Running",
    pod_ip="10.0.0.2",
    pod_ips=(core.PodIP(ip="10.0.0.2"),),
    conditions=(core.PodCondition(type="Ready", status="True"),),
)


@dataclass
class KnownPods:
    """The API server's pods as the agent last saw them."""

    pods: dict[PodUID, core.Pod] = field(default_factory=dict)

    def counterpart(self, uid: PodUID) -> core.Pod | None:
        return self.pods.get(uid)


@dataclass
class Rig:
    api: Api
    statuses: SettableStatuses
    patcher: StatusPatcher
    known: KnownPods
    synced: list[float]

    def add(self, value: core.Pod) -> core.Pod:
        """A pod at the API server that the agent has seen."""
        there = self.api.put_pod(value)
        self.known.pods[ref_of(there).uid] = there
        return there

    def see(self) -> core.Pod:
        """The pod as it is there now comes in by the watch."""
        there = from_builtins(self.api.get("pods", "web", "ns"), core.Pod)
        self.known.pods[ref_of(there).uid] = there
        self.patcher.seen(ref_of(there).uid)
        return there

    def there(self) -> Any:
        return self.api.get("pods", "web", "ns")["status"]

    @property
    def patches(self) -> int:
        return self.api.fake.count("PATCH")


@dataclass
class SyncDelays:
    """Records the delays of delivered statuses."""

    delays: list[float] = field(default_factory=list)

    def status_synced(self, seconds: float) -> None:
        self.delays.append(seconds)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with fake_api() as api:
        statuses, known = SettableStatuses(clock=api.clock, node=Node()), KnownPods()
        synced = SyncDelays()
        patcher = StatusPatcher(
            PatcherDeps(client=api.client, statuses=statuses, pods=known, telemetry=telemetry(api.clock, synced))
        )
        async with running(patcher.run()):
            yield Rig(api, statuses, patcher, known, synced.delays)


async def test_a_change_is_patched_at_once_without_a_get(rig: Rig) -> None:
    made = rig.add(pod(static=False))
    rig.statuses.set(made, RUNNING)
    await until(lambda: rig.there()["phase"] == "Running")
    assert rig.api.fake.count("GET") == 0 and rig.patches == 1
    rig.statuses.set(made, RUNNING)
    await settle()
    assert rig.patches == 1


async def test_newest_status_is_sent_after_a_running_request(rig: Rig) -> None:
    made = rig.add(pod(static=False))
    rig.api.fake.faults = [Fault("PATCH", delay=1.0)]
    for reason in ("one", "two", "three"):
        rig.statuses.set(made, replace(RUNNING, reason=reason))
    await until(lambda: rig.patches == 1)
    rig.statuses.set(made, replace(RUNNING, reason="four"))
    await until(lambda: rig.there().get("reason") == "four")
    assert rig.patches == 2
    await until(lambda: len(rig.synced) == 2)
    assert rig.synced[0] >= 1.0


async def test_newest_status_is_sent_once_the_api_server_is_back(rig: Rig) -> None:
    made = rig.add(pod(static=False))
    await rig.api.fake.go_away()
    rig.statuses.set(made, RUNNING)
    await settle()
    rig.statuses.set(made, replace(RUNNING, reason="later"))
    await rig.api.fake.serve_again()
    await until(lambda: rig.there().get("reason") == "later")


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_delivery_is_retried_after_errors(rig: Rig, status: int) -> None:
    made = rig.add(pod(static=False))
    rig.api.fake.faults = [Fault("PATCH", status=status, times=6)]
    rig.statuses.set(made, RUNNING)
    await until(lambda: rig.there()["phase"] == "Running")


async def test_a_pod_of_another_uid_is_not_touched(rig: Rig) -> None:
    made = rig.add(pod(static=False))
    await rig.api.client.delete(TARGET, grace_seconds=0)
    rig.api.put_pod(pod(static=False))
    rig.statuses.set(made, RUNNING)
    await until(lambda: rig.patches == 1)
    await settle()
    assert rig.there()["phase"] == "Pending" and rig.patches == 1


async def test_patch_is_retried_after_a_conflict(rig: Rig) -> None:
    made = rig.add(pod(static=False))
    text = 'Operation cannot be fulfilled on pods "web": the object has been modified; please apply your changes'
    rig.api.fake.faults = [Fault("PATCH", status=409, message=text, times=2)]
    rig.statuses.set(made, RUNNING)
    await until(lambda: rig.there()["phase"] == "Running")
    assert rig.patches == 3


async def test_a_mirror_that_is_replaced_while_a_status_is_under_way_gets_it(rig: Rig) -> None:
    static = pod(static=True)
    uid = ref_of(static).uid
    rig.known.pods[uid] = rig.api.put_pod(pod(static=False))
    rig.api.fake.faults = [Fault("PATCH", delay=0.3)]
    rig.statuses.set(static, RUNNING)
    await until(lambda: rig.patches == 1)
    await rig.api.client.delete(TARGET, grace_seconds=0)
    rig.known.pods[uid] = rig.api.put_pod(pod(static=False))
    rig.patcher.seen(uid)
    await until(lambda: rig.there()["phase"] == "Running")
    assert rig.patches == 2


async def test_deleted_pod_gets_no_patch(rig: Rig) -> None:
    made = rig.add(pod(static=False))
    await rig.api.client.delete(TARGET, grace_seconds=0)
    rig.statuses.set(made, RUNNING)
    await until(lambda: rig.patches == 1)
    await settle()
    assert rig.patches == 1


async def test_conditions_of_others_stay(rig: Rig) -> None:
    made = rig.add(pod(static=False))
    rig.statuses.set(made, RUNNING)
    await until(lambda: rig.there()["phase"] == "Running")
    mine = rig.there()
    mine["conditions"].append({"type": "example.com/theirs", "status": "True"})
    rig.api.change("pods", "web", "ns", status=mine)
    rig.see()
    await settle()
    assert rig.patches == 1
    rig.statuses.set(made, replace(RUNNING, reason="x"))
    await until(lambda: rig.there().get("reason") == "x")
    assert {c["type"] for c in rig.there()["conditions"]} == {"Ready", "example.com/theirs"}


RESIZING = replace(
    RUNNING,
    host_ips=(core.HostIP(ip="10.1.0.1"), core.HostIP(ip="fd00::1")),
    pod_ips=(core.PodIP(ip="10.0.0.9"),),
    conditions=(*RUNNING.conditions, core.PodCondition(type="PodResizeInProgress", status="True")),
)


async def test_sent_fields_are_removed_before_the_watch_shows_them(rig: Rig) -> None:
    made = rig.add(pod(static=False))
    rig.statuses.set(made, RESIZING)
    await until(lambda: rig.patches == 1 and len(rig.there().get("conditions", ())) == 2)
    rig.statuses.set(made, replace(RUNNING, host_ips=RESIZING.host_ips[:1]))
    await until(lambda: rig.patches == 2 and [c["type"] for c in rig.there()["conditions"]] == ["Ready"])
    assert rig.there()["hostIPs"] == [{"ip": "10.1.0.1"}] and rig.there()["podIPs"] == [{"ip": "10.0.0.2"}]


async def test_a_condition_of_a_patch_without_an_answer_is_removed(rig: Rig) -> None:
    made = rig.add(pod(static=False))
    rig.statuses.set(made, RUNNING)
    await until(lambda: rig.there()["phase"] == "Running")
    lost = status_patch(ref_of(made).uid, made.status, RESIZING)
    await rig.api.client.patch(PODS.at("ns", "web", "status"), lost)
    assert len(rig.there()["conditions"]) == 2
    rig.statuses.set(made, replace(RUNNING, reason="x"))
    await until(lambda: rig.there().get("reason") == "x")
    assert [c["type"] for c in rig.there()["conditions"]] == ["Ready"]


async def test_a_status_overwritten_by_others_is_sent_again(rig: Rig) -> None:
    made = rig.add(pod(static=False))
    rig.statuses.set(made, RUNNING)
    await until(lambda: rig.there()["phase"] == "Running")
    rig.see()
    rig.api.change("pods", "web", "ns", status={**rig.there(), "phase": "Failed"})
    rig.see()
    await until(lambda: rig.there()["phase"] == "Running")
    assert rig.patches == 2
    # A second overwrite is left alone for a while: two writers that disagree must not flood the API server.
    await settle()
    rig.see()
    rig.api.change("pods", "web", "ns", status={**rig.there(), "phase": "Failed"})
    rig.see()
    await settle()
    assert rig.patches == 2


async def test_known_status_is_not_sent_after_an_agent_restart(rig: Rig) -> None:
    made = rig.add(pod(static=False))
    rig.api.change(
        "pods", "web", "ns", status={"phase": "Running", "podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.2"}]}
    )
    there = rig.see()
    rig.statuses.set(made, replace(there.status))
    await settle()
    assert rig.patches == 0


async def test_deletion_is_completed_only_when_all_containers_have_ended(rig: Rig) -> None:
    made = rig.add(pod(static=False))
    rig.statuses.set(made, RUNNING)
    await until(lambda: rig.patches == 1)
    await rig.api.client.delete(TARGET, grace_seconds=30)
    marked = rig.see()
    await settle()
    assert rig.api.all("pods")
    rig.statuses.terminate(marked)
    await until(lambda: not rig.api.all("pods"))
    assert rig.patches == 2, "the last status comes before the deletion"
    rig.statuses.remove(ref_of(made).uid)
    await settle()


async def test_a_mirror_gets_the_status_of_its_pod_and_is_not_deleted(rig: Rig) -> None:
    static = pod(static=True)
    mirror = rig.api.put_pod(pod(static=False))
    rig.known.pods[ref_of(static).uid] = with_meta(mirror, deletion_timestamp=None)
    rig.statuses.set(static, RUNNING)
    await until(lambda: rig.there()["phase"] == "Running")
    rig.statuses.terminate(static)
    await settle()
    assert rig.api.all("pods")


def test_patch_turns_any_status_into_the_agents() -> None:
    before = {
        "phase": "Pending",
        "reason": "Old",
        "podIPs": [{"ip": "10.0.0.1"}],
        "conditions": [
            {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "m"},
            {"type": "PodResizePending", "status": "True"},
            {"type": "theirs", "status": "True"},
        ],
        "nominatedNodeName": "kept",
    }
    there = from_builtins(before, core.PodStatus)
    after = strategic_patch({"status": before}, status_patch("u", there, RUNNING))["status"]
    assert from_builtins(after, core.PodStatus) == core.PodStatus(
        phase="Running",
        pod_ip="10.0.0.2",
        pod_ips=(core.PodIP(ip="10.0.0.2"),),
        nominated_node_name="kept",
        conditions=(
            core.PodCondition(type="Ready", status="True"),
            core.PodCondition(type="theirs", status="True"),
        ),
    )
    assert agent_part(from_builtins(after, core.PodStatus)) == agent_part(RUNNING)

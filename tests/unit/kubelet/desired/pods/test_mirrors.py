"""Mirror pods: what is planned, and what becomes of it at the API server."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from pykubelet.base.concurrency.callbacks import Callbacks
from pykubelet.kubelet.desired.pods import PodManager, is_mirror_of
from pykubelet.kubelet.desired.pods.mirror_pods import MirrorDeps, MirrorPods
from pykubelet.kubelet.desired.pods.plan.mirror_changes import mirror_for, plan_mirrors
from pykubelet.kubelet.types.ids import PodFullName, PodUID
from pykubelet.models import core_v1 as core
from pykubelet.models.codec import from_builtins
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.testing.fake_api import Fault
from pykubelet.testing.wait import settle, until
from tests.unit.kubelet.apitools import Api, fake_api, running
from tests.unit.kubelet.desired.pods.build import mirror, pod, static

NODE = core.Node(metadata=ObjectMeta(name="n", uid="node-uid"))
MARKED = datetime(2026, 1, 1, tzinfo=UTC)


def marked(value: core.Pod) -> core.Pod:
    return replace(value, metadata=replace(value.metadata, deletion_timestamp=MARKED))


@pytest.mark.parametrize(
    ("pods", "mirrors", "ending", "deleted", "created"),
    [
        ([static("a", "1")], [], [], "", "a"),
        ([static("a", "1", "h1")], [mirror("a", "m", "h1")], [], "", ""),
        ([static("a", "1", "h2")], [mirror("a", "m", "h1")], [], "a", "a"),
        ([static("a", "1", "h1")], [marked(mirror("a", "m", "h1"))], [], "a", "a"),
        ([], [mirror("a", "m")], [], "a", ""),
        ([], [mirror("a", "m")], ["a_default"], "", ""),
        ([static("a", "2", "h2")], [mirror("a", "m", "h1")], ["a_default"], "", ""),
        ([static("a", "2", "h2")], [marked(mirror("a", "m", "h1"))], ["a_default"], "", ""),
        ([static("a", "2", "h2")], [], ["a_default"], "", ""),
        ([pod("a", "1")], [], [], "", ""),
    ],
)
def test_mirror_plan_creates_missing_and_deletes_outdated_mirrors(
    pods: list[core.Pod], mirrors: list[core.Pod], ending: list[str], deleted: str, created: str
) -> None:
    plan = plan_mirrors(pods, mirrors, [PodFullName(name) for name in ending])
    assert "".join(p.metadata.name for p in plan.delete) == deleted
    assert "".join(p.metadata.name for p in plan.create) == created


def test_a_mirror_belongs_to_the_node_and_carries_the_hash() -> None:
    shown = mirror_for(static("a", "1", "h1"), NODE)
    assert is_mirror_of(shown, static("a", "1", "h1")) and not shown.metadata.uid
    (owner,) = shown.metadata.owner_references
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("Node", "n", "node-uid", True)


@dataclass
class Rig:
    api: Api
    pods: PodManager
    mirrors: MirrorPods
    ending: set[PodFullName] = field(default_factory=set)
    listed: bool = True

    def names(self) -> set[str]:
        return {each["metadata"]["name"] for each in self.api.all("pods")}

    def watch(self) -> None:
        """Deliver the pods of the API server as its watch does."""
        for old in self.pods.mirrors():
            self.pods.remove(PodUID(old.metadata.uid))
        for each in self.api.all("pods"):
            self.pods.set(from_builtins(each, core.Pod))
        self.mirrors.poke()


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with fake_api() as api:
        pods = PodManager()
        made: Rig
        deps = MirrorDeps(
            client=api.client,
            pods=pods,
            node=lambda: NODE,
            listed=lambda: made.listed,
            first_listed=Callbacks(),
            ending=lambda: made.ending,
            clock=api.clock,
        )
        made = Rig(api, pods, MirrorPods(deps))
        async with running(made.mirrors.run()):
            yield made


async def test_mirrors_follow_the_static_pods(rig: Rig) -> None:
    rig.pods.set(static("a", "1", "h1"))
    rig.mirrors.poke()
    await until(lambda: rig.names() == {"a"})
    rig.watch()
    first = rig.api.get("pods", "a")["metadata"]["uid"]
    rig.pods.remove(PodUID("1"))
    rig.pods.set(static("a", "2", "h2"))
    rig.mirrors.poke()
    await until(lambda: rig.names() == {"a"} and rig.api.get("pods", "a")["metadata"]["uid"] != first)
    rig.watch()
    rig.ending = {PodFullName("a_default")}
    rig.pods.remove(PodUID("2"))
    rig.mirrors.poke()
    await settle()
    assert rig.names() == {"a"}, "it is still being stopped"
    rig.ending = set()
    rig.mirrors.poke()
    await until(lambda: rig.names() == set())


async def test_nothing_is_done_before_the_api_servers_pods_are_known(rig: Rig) -> None:
    rig.listed = False
    rig.pods.set(static("a", "1"))
    rig.mirrors.poke()
    await settle()
    assert rig.api.fake.requests == []


async def test_refused_mirror_pod_is_retried(rig: Rig) -> None:
    rig.api.fake.faults = [Fault("POST", status=500, times=1)]
    rig.pods.set(static("a", "1"))
    rig.mirrors.poke()
    await until(lambda: rig.names() == {"a"})

"""The pods as the local API shows them."""

from pykubelet.kubelet.serve.common.pods_view import PodsView
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.models import core_v1 as core
from pykubelet.models.scalars import time_from_unix
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.statuses import SettableStatuses
from tests.unit.kubelet.report.pods import NOW, REF, container, pod, with_meta
from tests.unit.kubelet.report.status.build import Node

RUNNING = core.PodStatus(phase="Running")


class World:
    def __init__(self) -> None:
        self.clock = VirtualClock(NOW)
        self.statuses = SettableStatuses(clock=self.clock, node=Node())
        self.wanted: list[core.Pod] = []
        self.view = PodsView(statuses=self.statuses, desired=lambda: self.wanted, clock=self.clock)

    def shown(self) -> list[tuple[str, str]]:
        return [(p.metadata.name, p.status.phase) for p in self.view.list()]


def test_desired_pod_without_status_is_pending() -> None:
    world = World()
    world.wanted = [pod()]
    world.view.refresh()
    assert world.shown() == [("web", "Pending")]
    world.statuses.set(pod(), RUNNING)
    assert world.shown() == [("web", "Running")]
    world.view.refresh()
    assert world.shown() == [("web", "Running")]
    world.wanted = []
    world.view.refresh()
    assert world.shown() == [("web", "Running")], "it is still there"
    world.statuses.remove(REF.uid)
    assert world.shown() == []


def test_undesired_pod_without_status_is_removed() -> None:
    world = World()
    world.wanted = [pod()]
    world.view.refresh()
    world.wanted = []
    world.view.refresh()
    world.view.refresh()
    assert world.shown() == []


async def test_changes_can_be_watched_and_carry_versions() -> None:
    world = World()
    with world.view.table.subscribe() as watch:
        world.statuses.set(pod(), RUNNING)
        (change,) = await watch.take()
        shown = world.view.get(REF.uid)
        assert shown is not None and change.value == shown
        assert shown.metadata.resource_version == str(change.version) == str(world.view.table.version)
        assert (shown.api_version, shown.kind) == ("v1", "Pod")
        world.statuses.remove(REF.uid)
        assert [c.deleted for c in await watch.take()] == [True]


def test_deleted_pods_that_are_large_are_not_all_remembered() -> None:
    world = World()
    secrets = tuple(core.EnvVar(name=f"V{i}", value="x" * 1000) for i in range(1000))
    before = world.view.table.version
    for number in range(8):
        large = with_meta(pod(container("app", env=secrets)), name=f"web-{number}", uid=f"uid-{number}")
        world.statuses.set(large, RUNNING)
        world.statuses.remove(PodUID(f"uid-{number}"))
    assert world.view.table.since(before) is None
    later = list(world.view.table.since(world.view.table.version - 6) or ())
    assert [change.key for change in later] == ["uid-5", "uid-6", "uid-7"]


def test_versions_keep_growing_across_agent_restarts() -> None:
    world = World()
    assert world.view.table.version == int(NOW * 1000)


def test_pods_are_sorted_and_found_by_name() -> None:
    world = World()
    for namespace, name in (("b", "x"), ("a", "z"), ("a", "y")):
        world.statuses.set(with_meta(pod(), namespace=namespace, name=name, uid=namespace + name), RUNNING)
    assert [(p.metadata.namespace, p.metadata.name) for p in world.view.list()] == [("a", "y"), ("a", "z"), ("b", "x")]
    found = world.view.find("a", "z")
    assert found is not None and found.metadata.uid == "az"
    assert world.view.find("b", "z") is None
    assert world.view.get(PodUID("none")) is None


def test_pods_are_iterated_as_they_are_when_they_are_asked_for() -> None:
    world = World()
    for name in ("c", "a", "b", "d"):
        world.statuses.set(with_meta(pod(), name=name, uid=name), RUNNING)
    pods = world.view.iterate()
    assert next(pods).metadata.name == "a"
    world.statuses.remove(PodUID("b"))
    world.statuses.set(with_meta(pod(), name="c", uid="c"), core.PodStatus(phase="Succeeded"))
    assert [(p.metadata.name, p.status.phase) for p in pods] == [("c", "Succeeded"), ("d", "Running")]


def test_find_prefers_the_running_incarnation() -> None:
    world = World()
    world.statuses.set(with_meta(pod(), uid="new"), RUNNING)
    dying = with_meta(pod(), uid="old", deletion_timestamp=time_from_unix(NOW))
    world.statuses.set(dying, RUNNING)
    found = world.view.find("ns", "web")
    assert found is not None and found.metadata.uid == "new"
    world.statuses.remove(PodUID("new"))
    found = world.view.find("ns", "web")
    assert found is not None and found.metadata.uid == "old"

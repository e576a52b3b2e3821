"""Containers are created while an init container runs, and then only started."""

import pytest
from grpc import StatusCode

from pykubelet.kubelet.actuate.podruntime.decide_precreate import precreatable_containers
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.kubelet.types.runtime import ContainerState
from pykubelet.models.core_v1 import Pod
from pykubelet.testing.fake_cri import Fault, Script
from tests.unit.kubelet.actuate.podruntime.build import Fields, at, pod_of, sidecar, state_of
from tests.unit.kubelet.actuate.podruntime.world import World

SLOW = Script(exit_after=5)
_FILE = {"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}}


def told(world: World, reason: str) -> int:
    return sum(event.startswith(reason) for event in world.events.seen)


def names(pod: Pod, started: str) -> list[str]:
    return [c.name for c in precreatable_containers(pod, started, state_of(pod, at(started)))]


@pytest.mark.parametrize(
    ("started", "expected"), [("i", ["j"]), ("j", ["s"]), ("s", ["a", "b"]), ("a", []), ("nobody", [])]
)
def test_the_next_in_order(started: str, expected: list[str]) -> None:
    assert names(pod_of(("a", "b"), ("i", "j", sidecar("s"))), started) == expected


def mount(**fields: object) -> Fields:
    return {"name": "a", "volumeMounts": [{"name": "v", "mountPath": "/v", **fields}]}


@pytest.mark.parametrize(
    ("container", "volume"),
    [
        (mount(subPath="x"), {"emptyDir": {}}),
        (mount(subPathExpr="$(A)"), {"emptyDir": {}}),
        (mount(mountPropagation="HostToContainer"), {"emptyDir": {}}),
        (mount(), {"hostPath": {"path": "/x"}}),
        (mount(), {"image": {"reference": "x"}}),
        ({"name": "a", "env": [_FILE]}, {"emptyDir": {}}),
    ],
)
def test_what_looks_into_its_volumes_waits_for_its_turn(container: Fields, volume: Fields) -> None:
    pod = pod_of((container, "b"), ("i",), volumes=[{"name": "v", **volume}])
    assert names(pod, "i") == ["b"]


@pytest.mark.parametrize(
    "init",
    [
        {"name": "i", "securityContext": {"privileged": True}},
        {**mount(mountPropagation="Bidirectional"), "name": "i"},
    ],
)
def test_nothing_is_made_ahead_of_what_may_mount(init: Fields) -> None:
    assert names(pod_of(("a",), (init,), volumes=[{"name": "v", "emptyDir": {}}]), "i") == []


def test_restarts_are_made_in_their_turn() -> None:
    pod = pod_of(("a",), ("i",))
    assert precreatable_containers(pod, "i", state_of(pod, at("i"), at("a", state=ContainerState.EXITED))) == ()


async def test_it_is_there_before_its_turn_and_only_started_in_it(world: World) -> None:
    world.cri.script(SLOW, container="i")
    pod = pod_of(("a", "b"), ("i",))
    await world.settle(pod)
    made = [c.id for c in world.cri.containers if c.name != "i"]
    assert len(made) == 2
    assert [c.name for c in (await world.status(pod)).containers] == ["i"], "nobody sees them before their turn"
    assert told(world, "Created") == 1
    await world.clock.advance(5)
    await world.settle(pod)
    assert [c.id for c in world.cri.containers if c.running] == made
    assert [c.restart_count for c in (await world.status(pod)).containers] == [0, 0, 0]
    assert told(world, "Created") == 3


async def test_what_has_changed_meanwhile_is_made_anew(world: World) -> None:
    world.cri.script(SLOW, container="i")
    await world.settle(pod_of(("a",), ("i",)))
    changed = pod_of(({"name": "a", "env": [{"name": "A", "value": "new"}]},), ("i",))
    await world.clock.advance(5)
    await world.settle(changed)
    [container] = [c for c in world.cri.containers if c.name == "a"]
    assert container.running
    assert container.config.envs[0].value == b"new"
    assert container.config.metadata.attempt == 0


async def test_what_fails_is_told_in_its_turn(world: World) -> None:
    world.cri.script(SLOW, container="i")
    world.cri.inject(Fault("CreateContainer", target="ns/web/a", code=StatusCode.UNKNOWN))
    pod = pod_of(("a",), ("i",))
    assert not (await world.settle(pod)).failures
    assert told(world, "Failed") == 0
    await world.clock.advance(5)
    assert (await world.settle(pod)).failures
    assert told(world, "Failed") == 1


async def test_nothing_is_pulled_ahead(world: World) -> None:
    world.cri.script(SLOW, container="i")
    world.images.absent = {"a"}
    await world.settle(pod_of(("a",), ("i",)))
    assert [c.name for c in world.cri.containers] == ["i"]


async def test_after_a_restart_of_the_agent_the_init_container_is_still_waited_for(world: World) -> None:
    world.cri.script(SLOW, container="i")
    pod = pod_of(("a",), ("i",))
    await world.settle(pod)
    world.restart()
    await world.settle(pod)
    assert world.running() == ["i"]
    await world.clock.advance(5)
    await world.settle(pod)
    assert world.running() == ["a"]
    assert [c.restart_count for c in (await world.status(pod)).containers] == [0, 0]


async def test_one_that_was_taken_away_is_made_again(world: World) -> None:
    world.cri.script(SLOW, container="i")
    pod = pod_of(("a",), ("i",))
    await world.settle(pod)
    [container] = [c for c in world.cri.containers if c.name == "a"]
    await world.deps.cri.remove_container(ContainerID(container.id))
    await world.clock.advance(5)
    await world.settle(pod)
    assert world.running() == ["a"]


async def test_it_goes_with_its_pod(world: World) -> None:
    world.cri.script(SLOW, container="i")
    pod = pod_of(("a",), ("i",))
    await world.settle(pod)
    await world.kill(pod)
    await world.runtime.remove_pod((await world.status(pod)).ref)
    assert not world.cri.containers

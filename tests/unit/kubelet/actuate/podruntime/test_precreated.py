"""Pre-created containers: created while an init container runs, started later."""

import pytest
from grpc import StatusCode

from pykubelet.kubelet.actuate.podruntime.plan.precreation import precreatable_containers
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.kubelet.types.runtime import ContainerState
from pykubelet.models.core_v1 import Pod
from pykubelet.testing.fake_cri import Fault, Script
from tests.unit.kubelet.actuate.podruntime.build import Fields, at, pod_of, sidecar, state_of
from tests.unit.kubelet.actuate.podruntime.world import World

SLOW = Script(exit_after=5)
_FILE = {"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}}


def reported(world: World, reason: str) -> int:
    return sum(event.startswith(reason) for event in world.events.seen)


def names(pod: Pod, started: str) -> list[str]:
    return [c.name for c in precreatable_containers(pod, started, state_of(pod, at(started)))]


@pytest.mark.parametrize(
    ("started", "expected"), [("i", ["j"]), ("j", ["s"]), ("s", ["a", "b"]), ("a", []), ("unknown", [])]
)
def test_precreatable_containers_are_the_next_in_order(started: str, expected: list[str]) -> None:
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
def test_container_that_depends_on_volume_content_is_not_precreated(container: Fields, volume: Fields) -> None:
    pod = pod_of((container, "b"), ("i",), volumes=[{"name": "v", **volume}])
    assert names(pod, "i") == ["b"]


@pytest.mark.parametrize(
    "init",
    [
        {"name": "i", "securityContext": {"privileged": True}},
        {**mount(mountPropagation="Bidirectional"), "name": "i"},
    ],
)
def test_nothing_is_precreated_while_an_init_container_can_mount(init: Fields) -> None:
    assert names(pod_of(("a",), (init,), volumes=[{"name": "v", "emptyDir": {}}]), "i") == []


def test_restarts_are_not_precreated() -> None:
    pod = pod_of(("a",), ("i",))
    assert precreatable_containers(pod, "i", state_of(pod, at("i"), at("a", state=ContainerState.EXITED))) == ()


async def test_precreated_container_is_only_started_later(world: World) -> None:
    world.cri.script(SLOW, container="i")
    pod = pod_of(("a", "b"), ("i",))
    await world.settle(pod)
    made = [c.id for c in world.cri.containers if c.name != "i"]
    assert len(made) == 2
    assert [c.name for c in (await world.status(pod)).containers] == ["i"], "statuses leave out pre-created containers"
    assert reported(world, "Created") == 1
    await world.clock.advance(5)
    await world.settle(pod)
    assert [c.id for c in world.cri.containers if c.running] == made
    assert [c.restart_count for c in (await world.status(pod)).containers] == [0, 0, 0]
    assert reported(world, "Created") == 3


async def test_precreated_container_with_changed_config_is_recreated(world: World) -> None:
    world.cri.script(SLOW, container="i")
    await world.settle(pod_of(("a",), ("i",)))
    changed = pod_of(({"name": "a", "env": [{"name": "A", "value": "new"}]},), ("i",))
    await world.clock.advance(5)
    await world.settle(changed)
    [container] = [c for c in world.cri.containers if c.name == "a"]
    assert container.running
    assert container.config.envs[0].value == b"new"
    assert container.config.metadata.attempt == 0


async def test_failed_precreation_is_reported_at_the_start(world: World) -> None:
    world.cri.script(SLOW, container="i")
    world.cri.inject(Fault("CreateContainer", target="ns/web/a", code=StatusCode.UNKNOWN))
    pod = pod_of(("a",), ("i",))
    assert not (await world.settle(pod)).failures
    assert reported(world, "Failed") == 0
    await world.clock.advance(5)
    assert (await world.settle(pod)).failures
    assert reported(world, "Failed") == 1


async def test_precreation_pulls_no_image(world: World) -> None:
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


async def test_removed_precreated_container_is_created_again(world: World) -> None:
    world.cri.script(SLOW, container="i")
    pod = pod_of(("a",), ("i",))
    await world.settle(pod)
    [container] = [c for c in world.cri.containers if c.name == "a"]
    await world.deps.cri.remove_container(ContainerID(container.id))
    await world.clock.advance(5)
    await world.settle(pod)
    assert world.running() == ["a"]


async def test_precreated_container_is_removed_with_its_pod(world: World) -> None:
    world.cri.script(SLOW, container="i")
    pod = pod_of(("a",), ("i",))
    await world.settle(pod)
    await world.kill(pod)
    await world.runtime.remove_pod((await world.status(pod)).ref)
    assert not world.cri.containers


async def test_precreated_container_of_a_pod_that_starts_again_is_no_restart(world: World) -> None:
    world.cri.script(SLOW, container="i")
    pod = pod_of(("a",), ("i",))
    await world.settle(pod)
    await world.kill(pod)
    await world.runtime.remove_pod((await world.status(pod)).ref, keep_logs=True)
    assert not world.cri.containers
    await world.settle(pod)
    await world.clock.advance(5)
    await world.settle(pod)
    counts = {c.name: c.restart_count for c in (await world.status(pod)).containers}
    assert counts == {"i": 1, "a": 0}

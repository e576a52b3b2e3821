"""The choice of dead containers that are removed while the wall clock jumps."""

import pytest

from pykubelet.kubelet.actuate.podruntime.plan.container_ages import ContainerAges
from pykubelet.kubelet.actuate.podruntime.plan.removals import ContainerGcPolicy, garbage_containers
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID, SandboxID, ref_of
from pykubelet.kubelet.types.runtime import ContainerState, ContainerSummary, RuntimePod, SandboxSummary
from tests.unit.kubelet.actuate.podruntime.build import EXITED, RUNNING, pod_of
from tests.unit.kubelet.actuate.podruntime.world import World

HOUR = 3600.0
WALL = 1_700_000_000.0


def row(name: str, created: float, attempt: int = 0, state: ContainerState = EXITED) -> ContainerSummary:
    identity = ContainerID(f"{name}/{attempt}")
    return ContainerSummary(identity, name, state, SandboxID("s"), attempt=attempt, created_at=created)


def removed(ages: ContainerAges, rows: list[ContainerSummary], policy: ContainerGcPolicy) -> list[str]:
    pod = RuntimePod(PodRef("ns", "p", PodUID("p")), (SandboxSummary(SandboxID("s"), True),), tuple(rows))
    return [each.id for each in garbage_containers([pod], policy, lambda uid: False, ages.age)]


@pytest.mark.parametrize("jump", [-HOUR, HOUR])
def test_known_age_does_not_change_with_the_wall_clock(jump: float) -> None:
    ages, rows, policy = ContainerAges(), [row("a", WALL)], ContainerGcPolicy(min_age=60, max_per_container=0)
    ages.look(rows, 1010, WALL + 10)
    ages.look(rows, 1059, WALL + 59 + jump)
    assert removed(ages, rows, policy) == []
    ages.look(rows, 1060, WALL + 60 + jump)
    assert removed(ages, rows, policy) == ["a/0"]


@pytest.mark.parametrize(("jump", "age"), [(0, 20), (-HOUR, 0), (HOUR, 60)])
def test_container_found_first_is_no_older_than_the_look_before(jump: float, age: float) -> None:
    """The clock jumped between its creation, 20 seconds ago, and the look."""
    ages, found = ContainerAges(), row("a", WALL + 40)
    ages.look([], 1000, WALL)
    ages.look([found], 1060, WALL + 60 + jump)
    assert ages.age(found) == age


@pytest.mark.parametrize(("jump", "age"), [(0, 20), (-HOUR, 0), (HOUR, HOUR + 20)])
def test_container_of_the_first_look_is_as_old_as_the_wall_clock_says(jump: float, age: float) -> None:
    ages, found = ContainerAges(), row("a", WALL + 40)
    ages.look([found], 1060, WALL + 60 + jump)
    assert ages.age(found) == age


def test_container_that_is_gone_is_forgotten() -> None:
    ages, found = ContainerAges(), row("a", WALL)
    for rows in ([found], [], [found]):
        ages.look(rows, 1000, WALL + HOUR)
    assert ages.age(found) == 0


@pytest.mark.parametrize("back", [0.0, HOUR])
def test_older_attempt_is_removed_first_if_the_clock_was_set_back_before_the_agents_start(back: float) -> None:
    rows = [row("a", WALL - back + 20, attempt=1), row("a", WALL, attempt=0), row("b", WALL - back + 10)]
    ages = ContainerAges()
    ages.look(rows, 1000, WALL - back + 30)
    policy = ContainerGcPolicy(max_per_container=-1, max_total=2)
    assert removed(ages, rows, policy) == ["a/0"]


def test_older_attempt_counts_as_no_younger_than_a_running_one() -> None:
    """The wall clock was set back by an hour between the two."""
    rows = [row("a", WALL - HOUR, 1, RUNNING), row("a", WALL, 0)]
    ages = ContainerAges()
    ages.look(rows, 1000, WALL - HOUR + 61)
    assert removed(ages, rows, ContainerGcPolicy(min_age=60, max_per_container=0)) == ["a/0"]


@pytest.mark.parametrize("jump", [-HOUR, HOUR])
async def test_order_of_containers_of_several_pods_is_that_of_their_creation_while_the_clock_jumps(
    world: World, jump: float
) -> None:
    """The container of the first pod is the older one, also if the clock was an hour ahead when it was created."""
    pods = [pod_of(meta={"name": name, "uid": name}) for name in ("one", "two")]
    uids = {ref_of(pod).uid for pod in pods}
    policy = ContainerGcPolicy(max_total=1)
    for pod in pods:
        await world.settle(pod)
        await world.runtime.gc(lambda: uids, policy=policy)
        world.clock.jump_wall(jump)
        await world.clock.advance(60)
    for container in list(world.cri.containers):
        world.cri.end_container(container, 1)
    await world.runtime.gc(lambda: uids, policy=policy)
    assert [each.sandbox.config.metadata.name for each in world.cri.containers] == ["two"]


@pytest.mark.parametrize("jump", [-HOUR, HOUR])
async def test_dead_container_is_kept_for_its_least_age_while_the_clock_jumps(world: World, jump: float) -> None:
    pod, policy = pod_of(), ContainerGcPolicy(min_age=60, max_per_container=0)
    await world.settle(pod)
    world.cri.end_container(world.cri.containers[0], 1)
    kept = []
    for passed in (0, 59, 2):
        await world.clock.advance(passed)
        await world.runtime.gc(lambda: {ref_of(pod).uid}, policy=policy)
        kept.append(len(world.cri.containers))
        world.clock.jump_wall(jump)
    assert kept == [1, 1, 0]

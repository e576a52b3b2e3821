"""CrashLoopBackOff: delays, reset, and delays computed from attempts found at the agent's start."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.kubelet.actuate.cri_messages.labels import container_hash
from pykubelet.kubelet.actuate.podruntime.plan.crashloop import CrashLoop, Wait, crash_delays, crash_streak
from pykubelet.kubelet.actuate.podruntime.podruntime_types import PodRuntimeConfig
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.runtime import ContainerStatus, PodRuntimeStatus
from pykubelet.models.core_v1 import Container, ResourceRequirements
from tests.unit.kubelet.actuate.podruntime.build import DONE, EXITED, T0, UNKNOWN, at, pod_of, state_of

APP = pod_of().spec.containers[0]


def exit_at(start: float, end: float, count: int = 0) -> ContainerStatus:
    return at(
        "app", state=EXITED, restart_count=count, created_at=T0 + start, started_at=T0 + start, finished_at=T0 + end
    )


def states(*containers: ContainerStatus) -> PodRuntimeStatus:
    return state_of(pod_of(), *containers)


@pytest.mark.parametrize(
    ("reduced", "maximum", "delays"),
    [
        (False, None, (10, 300)),
        (True, None, (1, 60)),
        (False, 40, (10, 40)),
        (True, 300, (1, 300)),
        (False, 4, (4, 4)),
    ],
)
def test_configured_maximum_counts_with_either_gate_and_shortens_the_first_delay(
    reduced: bool, maximum: float | None, delays: tuple[float, float]
) -> None:
    assert crash_delays(reduced=reduced, maximum=maximum) == delays


def test_first_restart_has_no_delay() -> None:
    loop = CrashLoop(PodRuntimeConfig())
    assert loop.wait(states(), APP, T0) is None
    assert loop.wait(states(at("app")), APP, T0) is None
    assert loop.wait(states(exit_at(0, 1)), APP, T0 + 1) is None


def test_reading_the_back_off_does_not_lengthen_it() -> None:
    loop = CrashLoop(PodRuntimeConfig())
    loop.starting(states(exit_at(0, 1)), APP, T0 + 1)
    status = states(exit_at(0, 1), exit_at(1, 2, 1))
    for _ in range(5):
        assert loop.wait(status, APP, T0 + 3) == Wait(10, T0 + 12)
    assert loop.wait(status, APP, T0 + 12) is None


def test_ten_minutes_of_running_reset_the_back_off() -> None:
    loop = CrashLoop(PodRuntimeConfig())
    for count in range(5):
        loop.starting(states(exit_at(count, count + 1, count)), APP, T0 + count + 1)
    assert loop.wait(states(exit_at(6, 605, 5)), APP, T0 + 606) is not None
    late = states(exit_at(6, 606, 5))
    assert loop.wait(late, APP, T0 + 606) is None
    loop.starting(late, APP, T0 + 606)
    assert loop.wait(states(exit_at(606, 607, 6)), APP, T0 + 607) == Wait(10, T0 + 617)


def test_pod_that_was_removed_starts_again_without_delay() -> None:
    """`delete` and `apply` of the same manifest make a pod with the same uid."""
    loop = CrashLoop(PodRuntimeConfig())
    for count in range(4):
        loop.starting(states(exit_at(count, count + 1, count)), APP, T0 + count + 1)
    loop.forget(states().uid)
    loop.starting(states(exit_at(6, 7)), APP, T0 + 7)
    assert loop.wait(states(exit_at(7, 8, 1)), APP, T0 + 8) == Wait(10, T0 + 18)


def test_back_off_stays_when_another_pod_was_removed() -> None:
    loop = CrashLoop(PodRuntimeConfig())
    loop.starting(states(exit_at(0, 1)), APP, T0 + 1)
    loop.forget(PodUID("other"))
    assert loop.wait(states(exit_at(0, 1), exit_at(1, 2, 1)), APP, T0 + 3) == Wait(10, T0 + 12)


def test_other_resources_reset_the_back_off() -> None:
    """A container that was out of memory and has been resized starts at once."""
    loop = CrashLoop(PodRuntimeConfig())
    resized = msgspec.structs.replace(APP, resources=ResourceRequirements(limits={"memory": "1Gi"}))
    status = states(exit_at(0, 1), exit_at(1, 2, 1), exit_at(2, 3, 2))
    assert loop.wait(status, APP, T0 + 4) is not None
    assert loop.wait(status, resized, T0 + 4) is None
    loop.collect(T0 + 4)
    assert loop.wait(status, resized, T0 + 4) is None
    loop.starting(status, resized, T0 + 4)
    assert loop.wait(states(exit_at(4, 5, 3)), resized, T0 + 5) == Wait(10, T0 + 15)


def test_resources_of_a_start_are_those_before_a_resize() -> None:
    """Exits count for the resources with which the container was started, also if nothing had waited before."""
    loop = CrashLoop(PodRuntimeConfig())
    resized = msgspec.structs.replace(APP, resources=ResourceRequirements(limits={"memory": "1Gi"}))
    loop.starting(states(exit_at(0, 1)), APP, T0 + 1)
    exits = states(exit_at(0, 1), exit_at(1, 2, 1), exit_at(2, 3, 2))
    assert loop.wait(exits, resized, T0 + 4) is None
    assert loop.wait(exits, APP, T0 + 4) is not None


def test_resources_are_forgotten_with_the_back_off() -> None:
    """Then exits count for the resources that the container has now, as after a start of the agent."""
    loop = CrashLoop(PodRuntimeConfig())
    resized = msgspec.structs.replace(APP, resources=ResourceRequirements(limits={"memory": "1Gi"}))
    loop.starting(states(exit_at(0, 1)), APP, T0 + 1)
    loop.collect(T0 + 5000)
    exits = states(exit_at(5000, 5001, 1), exit_at(5002, 5003, 2))
    assert loop.wait(exits, resized, T0 + 5003) == Wait(20, T0 + 5023)


def test_changed_image_resets_the_back_off() -> None:
    loop = CrashLoop(PodRuntimeConfig())
    status = states(exit_at(0, 1))
    loop.starting(status, APP, T0 + 1)
    assert loop.wait(status, APP, T0 + 2) is not None
    assert loop.wait(status, Container(name="app", image="app:2"), T0 + 2) is None


def test_attempts_of_another_image_do_not_count() -> None:
    loop = CrashLoop(PodRuntimeConfig())
    new = Container(name="app", image="app:2")
    before = exit_at(0, 1, 6)
    assert loop.wait(states(before), new, T0 + 1) is None
    loop.starting(states(before), new, T0 + 1)
    after = replace(exit_at(2, 3, 7), hash=container_hash(new))
    assert loop.wait(states(before, after), new, T0 + 3) == Wait(10, T0 + 13)


def test_first_start_has_no_back_off() -> None:
    loop = CrashLoop(PodRuntimeConfig())
    loop.starting(states(), APP, T0)
    assert loop.wait(states(exit_at(0, 1)), APP, T0 + 1) is None


def test_collect_forgets_only_stale_back_offs() -> None:
    loop = CrashLoop(PodRuntimeConfig())
    status = states(exit_at(0, 1))
    loop.starting(status, APP, T0 + 1)
    loop.collect(T0 + 500)
    assert loop.wait(status, APP, T0 + 2) is not None
    loop.collect(T0 + 5000)
    assert loop.wait(status, APP, T0 + 2) is None


@pytest.mark.parametrize(
    ("attempts", "delay"),
    [
        ((exit_at(0, 1),), 0),
        ((exit_at(0, 1, 1),), 10),
        ((exit_at(0, 1, 2),), 20),
        ((exit_at(0, 1, 3),), 40),
        ((exit_at(0, 1, 40),), 300),
        ((exit_at(0, 1, 10**9),), 300),
        ((exit_at(0, 600, 7),), 300),
        ((exit_at(0, 601, 7),), 0),
        ((exit_at(0, 1000, 7),), 0),
        ((exit_at(0, 1000, 7), exit_at(1010, 1011, 8)), 10),
        ((exit_at(0, 1000, 7), exit_at(1010, 1011, 8), exit_at(1020, 1021, 9)), 20),
        ((exit_at(0, 1, 7), exit_at(10, 11, 8)), 300),
        ((exit_at(0, 1, 7), at("app", state=UNKNOWN, restart_count=8)), 300),
    ],
)
def test_back_off_is_computed_from_attempts_of_the_runtime(attempts: tuple[ContainerStatus, ...], delay: float) -> None:
    status = states(*attempts)
    newest = next(c for c in status.containers if c.state is EXITED)
    wait = CrashLoop(PodRuntimeConfig()).wait(status, APP, newest.finished_at)
    assert wait == (Wait(delay, newest.finished_at + delay) if delay else None)


@given(st.lists(st.integers(0, 2000), min_size=1, max_size=20))
def test_restarted_agent_computes_the_same_back_off(runs: list[int]) -> None:
    """With all attempts at hand, the two agree to the second."""
    old, now, attempts = CrashLoop(PodRuntimeConfig()), T0, list[ContainerStatus]()
    for count, seconds in enumerate(runs):
        attempts.append(exit_at(now - T0, now - T0 + seconds, count))
        now += seconds
        status = states(*attempts)
        wait = old.wait(status, APP, now)
        assert CrashLoop(PodRuntimeConfig()).wait(status, APP, now) == wait
        now = (wait.until if wait else now) + 0.001
        old.starting(status, APP, now)


def test_crash_streak_without_exits_is_zero() -> None:
    assert crash_streak([], 600) == 0
    assert crash_streak([at("app", **DONE)], 600) == 1


def test_lower_maximum_holds_for_a_container_that_waits() -> None:
    loop = CrashLoop(PodRuntimeConfig())
    for count in range(4):
        loop.starting(states(exit_at(count, count + 1, count)), APP, T0 + count + 1)
    status = states(exit_at(4, 5, 4))
    assert loop.wait(status, APP, T0 + 6) == Wait(80, T0 + 85)
    loop.limit(20)
    assert loop.wait(status, APP, T0 + 6) == Wait(20, T0 + 25)
    assert loop.wait(status, APP, T0 + 25) is None

import asyncio
import logging

import pytest

from pykubelet.base.errors import Transient, Unsupported
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.runtime import ContainerState
from pykubelet.kubelet.types.runtime_events import RuntimeEventKind
from tests.unit.kubelet.observe.pleg.fakes import Runtime, container, pod, sandbox

NO_EVENTS = Unsupported("no events")
BROKEN = Transient("stream broke")
STOPPED, STARTED = RuntimeEventKind.STOPPED, RuntimeEventKind.STARTED
EXITED, CREATED = ContainerState.EXITED, ContainerState.CREATED


def runtime_without_events() -> Runtime:
    return Runtime(stream_error=NO_EVENTS)


async def runtime_with_events(runtime: Runtime) -> None:
    """Let the stream last until it is trusted, and the lists be rare."""
    await runtime.clock.advance(3)
    runtime.taken()
    runtime.lists.clear()


async def test_the_first_list_tells_of_everything() -> None:
    runtime = runtime_without_events()
    runtime.put(pod("a", sandbox("sa"), container("a1"), container("a2", EXITED), container("a3", CREATED)))
    assert runtime.pleg.healthy() == "pleg has yet to be successful"
    async with runtime.running():
        assert runtime.taken() == [("a", "Started", "sa"), ("a", "Started", "a1"), ("a", "Died", "a2")]
        assert runtime.pleg.healthy() is None
        assert runtime.pleg.pods == runtime.pods
        assert runtime.metrics.counts[0] == 1


async def test_without_events_pods_are_listed_every_second() -> None:
    runtime = runtime_without_events()
    runtime.put(pod("a", sandbox("sa"), container("a1")))
    async with runtime.running():
        await runtime.clock.advance(20)
        assert len(runtime.lists) == 21
        assert runtime.checks == []
        runtime.taken()
        runtime.end("a", "a1")
        await runtime.clock.advance(1)
        assert runtime.taken() == [("a", "Died", "a1")]
        runtime.pods.clear()
        await runtime.clock.advance(2)
        assert set(runtime.taken()) == {("a", "Removed", "a1"), ("a", "Died", "sa"), ("a", "Removed", "sa")}
        assert runtime.pleg.pods == {}
        assert runtime.metrics.intervals[0] == pytest.approx(1.0)


@pytest.mark.parametrize("lifetime", [0.01, 0.05, 0.3, 0.9])
async def test_an_exit_soon_after_a_poke_is_seen_within_100_ms(lifetime: float) -> None:
    runtime = runtime_without_events()
    runtime.put(pod("idle", sandbox("s0"), container("c0")))
    async with runtime.running():
        await runtime.clock.advance(10.5)
        runtime.put(pod("a", sandbox("sa"), container("a1")))
        runtime.pleg.poke(PodUID("a"))
        await runtime.clock.advance(lifetime)
        runtime.taken()
        runtime.end("a", "a1")
        ended = runtime.clock.monotonic()
        await runtime.clock.advance(0.15)
        died = runtime.events.index(("a", "Died", "a1"))
        assert runtime.times[died] - ended <= 0.1 + 1e-6
        assert set(runtime.checks) == {"a"}


async def test_watching_one_pod_closely_ends_by_itself() -> None:
    runtime = runtime_without_events()
    runtime.put(pod("a", sandbox("sa"), container("a1")))
    async with runtime.running():
        await runtime.clock.advance(1)
        runtime.pleg.poke(PodUID("a"))
        await runtime.clock.advance(60)
        assert 20 < len(runtime.checks) < 60
        runtime.checks.clear()
        await runtime.clock.advance(60)
        assert runtime.checks == []


async def test_a_pod_that_changed_is_watched_closely() -> None:
    """A chain of short init containers: each is seen soon, though only the first was announced."""
    runtime = runtime_without_events()
    async with runtime.running():
        runtime.put(pod("a", sandbox("sa")))
        runtime.pleg.poke(PodUID("a"))
        for i in range(5):
            await runtime.clock.advance(0.2)
            runtime.taken()
            runtime.put(pod("a", sandbox("sa"), container(f"c{i}", EXITED)))
            await runtime.clock.advance(0.05)
            assert ("a", "Died", f"c{i}") in runtime.taken()


async def test_many_pods_in_transition_share_a_list() -> None:
    runtime = runtime_without_events()
    async with runtime.running():
        await runtime.clock.advance(0.5)
        for i in range(50):
            runtime.put(pod(f"p{i}", sandbox(f"s{i}")))
            runtime.pleg.poke(PodUID(f"p{i}"))
        runtime.lists.clear()
        await runtime.clock.advance(0.03)
        assert len(runtime.lists) == 1
        assert runtime.checks == []
        assert len(runtime.taken()) == 50


async def test_lists_and_checks_take_at_most_a_tenth_of_the_time() -> None:
    runtime = runtime_without_events()
    runtime.list_takes = 0.05
    runtime.put(pod("a", sandbox("sa")))
    async with runtime.running():
        await runtime.clock.advance(1)
        runtime.checks.clear()
        runtime.lists.clear()
        for _ in range(10):
            runtime.pleg.poke(PodUID("a"))
            await runtime.clock.advance(0.5)
        assert 8 <= len(runtime.checks) + len(runtime.lists) <= 11


async def test_a_pod_gone_between_two_checks() -> None:
    runtime = runtime_without_events()
    runtime.put(pod("a", sandbox("sa", ready=False)))
    async with runtime.running():
        runtime.taken()
        runtime.pleg.poke(PodUID("a"))
        runtime.pods.clear()
        await runtime.clock.advance(0.05)
        assert runtime.taken() == [("a", "Removed", "sa")]
        assert runtime.pleg.pods == {}


async def test_with_events_lists_are_rare_and_exits_are_reported_at_once() -> None:
    runtime = Runtime(stream_error=None)
    runtime.put(pod("a", sandbox("sa"), container("a1")))
    async with runtime.running():
        await runtime_with_events(runtime)
        await runtime.clock.advance(60)
        assert len(runtime.lists) == 6
        runtime.end("a", "a1")
        runtime.send("a1", STOPPED)
        assert runtime.taken() == [("a", "Died", "a1")]
        runtime.send("a1", STOPPED)
        await runtime.clock.advance(20)
        assert runtime.taken() == []


async def test_the_end_of_an_unknown_container_causes_a_list_at_once() -> None:
    runtime = Runtime(stream_error=None)
    async with runtime.running():
        await runtime_with_events(runtime)
        runtime.put(pod("a", sandbox("sa"), container("a1", EXITED)))
        runtime.send("a1", STOPPED)
        await runtime.clock.settle()
        assert runtime.taken() == [("a", "Started", "sa"), ("a", "Died", "a1")]
        assert len(runtime.lists) == 1


async def test_starts_of_unknown_containers_share_a_list() -> None:
    runtime = Runtime(stream_error=None)
    async with runtime.running():
        await runtime_with_events(runtime)
        for i in range(10):
            runtime.put(pod(f"p{i}", sandbox(f"s{i}"), container(f"c{i}")))
            runtime.send(f"s{i}", STARTED)
            runtime.send(f"c{i}", STARTED)
            runtime.pleg.poke(PodUID(f"p{i}"))
            await runtime.clock.advance(0.02)
        await runtime.clock.advance(0.3)
        assert len(runtime.lists) == 1
        assert runtime.checks == []
        assert len(runtime.taken()) == 20
        runtime.send("c3", STOPPED)
        assert runtime.taken() == [("p3", "Died", "c3")]


async def test_an_event_that_names_its_pod_needs_no_list() -> None:
    runtime = Runtime(stream_error=None)
    async with runtime.running():
        await runtime_with_events(runtime)
        runtime.put(pod("a", sandbox("sa"), container("a1", EXITED)))
        runtime.send("a1", STOPPED, uid="a")
        await runtime.clock.settle()
        assert runtime.taken() == [("a", "Started", "sa"), ("a", "Died", "a1")]
        assert (runtime.lists, runtime.checks) == ([], ["a"])
        await runtime.clock.advance(5)
        assert runtime.checks == ["a"]


@pytest.mark.parametrize("kind", [RuntimeEventKind.DELETED, RuntimeEventKind.OOM])
async def test_events_without_a_list(kind: RuntimeEventKind) -> None:
    runtime = Runtime(stream_error=None)
    async with runtime.running():
        await runtime_with_events(runtime)
        runtime.send("unknown", kind)
        await runtime.clock.advance(1)
        assert (runtime.lists, runtime.checks, runtime.taken()) == ([], [], [])


async def test_a_deletion_is_reported_at_once() -> None:
    runtime = Runtime(stream_error=None)
    runtime.put(pod("a", container("a1", EXITED)))
    async with runtime.running():
        await runtime_with_events(runtime)
        runtime.send("a1", RuntimeEventKind.DELETED)
        assert runtime.taken() == [("a", "Removed", "a1")]
        assert runtime.pleg.pods == {}


@pytest.mark.parametrize("known", [True, False])
async def test_an_event_overtakes_the_answer_of_a_list(known: bool) -> None:
    """The list was made up before the container ended and arrives after the event: nothing comes to life again."""
    runtime = Runtime(stream_error=None)
    if known:
        runtime.put(pod("a", sandbox("sa"), container("a1")))
    async with runtime.running():
        await runtime_with_events(runtime)
        runtime.put(pod("a", sandbox("sa"), container("a1")))
        runtime.hold = asyncio.Event()
        await runtime.clock.advance(10)
        assert len(runtime.lists) == 1
        runtime.end("a", "a1")
        runtime.send("a1", STOPPED)
        await runtime.clock.settle()
        runtime.hold.set()
        await runtime.clock.settle()
        assert [e for e in runtime.taken() if e[2] == "a1"] == [("a", "Died", "a1")]
        await runtime.clock.advance(20)
        assert runtime.taken() == []


async def test_a_broken_stream_causes_a_list_at_once_and_frequent_ones_until_it_is_back() -> None:
    runtime = Runtime(stream_error=None)
    runtime.put(pod("a", sandbox("sa"), container("a1")))
    async with runtime.running():
        await runtime_with_events(runtime)
        runtime.end("a", "a1")
        runtime.break_stream(BROKEN)
        await runtime.clock.settle()
        assert runtime.taken() == [("a", "Died", "a1")]
        runtime.lists.clear()
        await runtime.clock.advance(60)
        assert 59 <= len(runtime.lists) <= 61
        assert 12 <= runtime.streams <= 25
        assert runtime.metrics.stream_errors == runtime.streams
        runtime.stream_error = None
        await runtime.clock.advance(15)
        runtime.lists.clear()
        await runtime.clock.advance(20)
        assert len(runtime.lists) == 2


async def test_events_that_the_runtime_does_not_have_are_asked_for_again_later() -> None:
    runtime = runtime_without_events()
    async with runtime.running():
        await runtime.clock.advance(590)
        assert runtime.streams == 1
        await runtime.clock.advance(20)
        assert runtime.streams == 2


async def test_a_runtime_that_is_down_for_long_makes_pleg_unhealthy(caplog: pytest.LogCaptureFixture) -> None:
    runtime = runtime_without_events()
    runtime.put(pod("a", sandbox("sa"), container("a1")))
    async with runtime.running():
        runtime.taken()
        runtime.error = Transient("connection refused")
        caplog.set_level(logging.INFO)
        await runtime.clock.advance(179)
        assert runtime.pleg.healthy() is None
        await runtime.clock.advance(6)
        assert runtime.pleg.healthy() == "pleg was last seen active 3m5s ago; threshold is 3m0s"
        assert [r.levelname for r in caplog.records] == ["WARNING"]
        assert runtime.taken() == []
        runtime.error = None
        runtime.end("a", "a1")
        await runtime.clock.advance(1)
        assert runtime.pleg.healthy() is None
        assert runtime.taken() == [("a", "Died", "a1")]
        seen = [at - runtime.clock.now() for at in runtime.metrics.seen_at[-2:]]
        assert seen == [pytest.approx(-186, abs=1), pytest.approx(0, abs=1)]


async def test_short_outage_of_the_runtime_is_reported_within_a_second_of_its_end() -> None:
    """Pods whose start failed meanwhile must not wait for the end of their back-off."""
    runtime = runtime_without_events()
    async with runtime.running():
        assert runtime.recoveries == [], "the first list is no recovery"
        runtime.error = Transient("connection refused")
        await runtime.clock.advance(2)
        runtime.error = None
        back = runtime.clock.monotonic()
        await runtime.clock.advance(30)
    assert [at - back <= 1 for at in runtime.recoveries] == [True]


async def test_a_list_that_hangs_does_not_stop_events_nor_start_another() -> None:
    runtime = Runtime(stream_error=None)
    runtime.put(pod("a", sandbox("sa"), container("a1")))
    async with runtime.running():
        await runtime_with_events(runtime)
        runtime.hold = asyncio.Event()
        await runtime.clock.advance(200)
        assert len(runtime.lists) == 1
        assert runtime.pleg.healthy() is not None
        runtime.send("a1", STOPPED)
        assert runtime.taken() == [("a", "Died", "a1")]
        runtime.end("a", "a1")
        runtime.hold.set()
        await runtime.clock.advance(1)
        assert runtime.pleg.healthy() is None


async def test_unexpected_exception_ends_pleg() -> None:
    """Core loops are not supervised: going on without lists would be worse than a restart."""
    runtime = runtime_without_events()
    runtime.error = ValueError("a defect")
    with pytest.raises(ExceptionGroup):
        await runtime.pleg.run()


async def test_events_with_the_pod_need_no_list() -> None:
    runtime = Runtime(stream_error=None)
    async with runtime.running():
        await runtime.clock.advance(3)
        looks = len(runtime.lists)
        runtime.send("s", RuntimeEventKind.STARTED, seen=pod("1", sandbox("s")))
        runtime.send("a", RuntimeEventKind.CREATED, seen=pod("1", sandbox("s"), container("a", ContainerState.CREATED)))
        runtime.pleg.poke(PodUID("1"))
        runtime.send("a", RuntimeEventKind.STARTED, seen=pod("1", sandbox("s"), container("a")))
        assert runtime.taken() == [("1", "Started", "s"), ("1", "Started", "a")]
        runtime.send("a", RuntimeEventKind.STOPPED, seen=pod("1", sandbox("s"), container("a", ContainerState.EXITED)))
        # Late: it says how things were before.
        runtime.send("a", RuntimeEventKind.STARTED, seen=pod("1", sandbox("s"), container("a")))
        runtime.send("a", RuntimeEventKind.DELETED, seen=pod("1", sandbox("s")))
        assert runtime.taken() == [("1", "Died", "a"), ("1", "Removed", "a")]
        await runtime.clock.advance(1)
        assert runtime.pleg.pods == {"1": pod("1", sandbox("s"))}
        runtime.send("s", RuntimeEventKind.DELETED)
        assert not runtime.pleg.pods
        assert (len(runtime.lists), runtime.checks) == (looks, [])


async def test_a_list_that_began_before_a_pod_was_shown_does_not_take_it_away() -> None:
    runtime = Runtime(stream_error=None)
    runtime.put(pod("old", sandbox("o")))
    async with runtime.running():
        runtime.taken()
        runtime.hold = asyncio.Event()
        await runtime.clock.advance(1)  # a list is under way
        runtime.send("s", RuntimeEventKind.STARTED, seen=pod("new", sandbox("s")))
        runtime.send("o", RuntimeEventKind.DELETED)
        runtime.hold.set()
        await runtime.clock.settle()
        assert runtime.pleg.pods == {"new": pod("new", sandbox("s"))}
        assert runtime.taken() == [("new", "Started", "s"), ("old", "Died", "o"), ("old", "Removed", "o")]

"""The timeline: steps, starts, restarts, bounds."""

from typing import TypeVar

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.kubelet.report.timeline import PodTimelines
from pykubelet.kubelet.report.timeline.timeline_recorder import EARLIER_STARTS, INTERRUPTED, MAX_PODS
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.reports.timeline import Step, Timeline
from pykubelet.kubelet.types.reports.timeline_views import TimelineView
from pykubelet.testing.clock import VirtualClock
from tests.unit.kubelet.report.pods import NOW, REF, pod

T = TypeVar("T")
UID = REF.uid


def some(value: T | None) -> T:
    assert value is not None
    return value


def bars(view: TimelineView) -> list[tuple[str, str, float, float]]:
    return [(s.step, s.container, s.start_s, s.duration_s) for s in view.steps]


async def test_timeline_of_a_start_has_all_steps_until_ready() -> None:
    clock = VirtualClock(NOW)
    timelines = PodTimelines(clock)
    timeline: Timeline = timelines
    timelines.pod_seen(pod())
    await clock.advance(0.5)
    timeline.begin(UID, Step.SANDBOX)
    await clock.advance(2)
    timeline.end(UID, Step.SANDBOX)
    timeline.begin(UID, Step.PULL, "app")
    await clock.advance(1)
    timeline.end(UID, Step.PULL, "app", error="404")
    timeline.begin(UID, Step.CREATE, "app")
    await clock.advance(0.25)
    view = some(timelines.view(UID))
    assert (view.pod, view.uid, view.kind, view.started_at) == ("ns/web", "uid-1", "start", NOW)
    assert bars(view) == [
        ("seen", "", 0, 0),
        ("sandbox", "", 0.5, 2),
        ("pull", "app", 2.5, 1),
        ("create", "app", 3.5, 0.25),
    ]
    assert [s.error for s in view.steps] == ["", "", "404", ""]
    assert [s.running for s in view.steps] == [False, False, False, True]
    assert (view.total_s, view.ready) == (3.75, False)
    timeline.end(UID, Step.CREATE, "app")
    timeline.end(UID, Step.READY)
    await clock.advance(100)
    timeline.end(UID, Step.READY)
    view = some(timelines.view(UID))
    assert (view.total_s, view.ready) == (3.75, True)


async def test_pulls_and_init_containers_that_overlap_count_once() -> None:
    clock = VirtualClock(NOW)
    timelines = PodTimelines(clock)
    assert timelines.setup_seconds(UID) == 0
    timelines.pod_seen(pod())
    timelines.begin(UID, Step.SANDBOX)
    timelines.begin(UID, Step.PULL, "a")
    await clock.advance(2)
    timelines.begin(UID, Step.PULL, "b")
    await clock.advance(1)
    timelines.end(UID, Step.PULL, "a")
    await clock.advance(1)
    timelines.end(UID, Step.PULL, "b")
    timelines.begin(UID, Step.CREATE, "a")
    await clock.advance(8)
    timelines.begin(UID, Step.INIT, "i")
    await clock.advance(16)
    assert timelines.setup_seconds(UID) == 4 + 16


async def test_a_step_that_begins_again_restarts() -> None:
    clock = VirtualClock()
    timelines = PodTimelines(clock)
    for _ in range(3):
        timelines.begin(UID, Step.PULL, "app")
        await clock.advance(1)
        timelines.end(UID, Step.PULL, "app", error="404")
    assert bars(some(timelines.view(UID))) == [("pull", "app", 2, 1)]


async def test_a_new_sandbox_of_a_ready_pod_is_a_new_start() -> None:
    clock = VirtualClock()
    timelines = PodTimelines(clock)
    for start in range(6):
        timelines.begin(UID, Step.SANDBOX)
        await clock.advance(start + 1)
        timelines.end(UID, Step.SANDBOX)
        timelines.end(UID, Step.READY)
    view = some(timelines.view(UID))
    assert view.total_s == 6
    assert [v.total_s for v in view.earlier] == [5, 4, 3]
    assert len(view.earlier) == EARLIER_STARTS


async def test_a_sandbox_made_again_before_the_pod_was_ready_is_the_same_start() -> None:
    clock = VirtualClock()
    timelines = PodTimelines(clock)
    for _ in range(2):
        timelines.begin(UID, Step.SANDBOX)
        await clock.advance(1)
        timelines.end(UID, Step.SANDBOX, error="no network")
    assert some(timelines.view(UID)).earlier == ()


async def test_container_restarts_do_not_evict_starts() -> None:
    clock = VirtualClock()
    timelines = PodTimelines(clock)
    timelines.end(UID, Step.SANDBOX)
    await clock.advance(1)
    timelines.end(UID, Step.READY)
    for restart in range(10):
        await clock.advance(60)
        timelines.begin(UID, Step.CREATE, "app")
        await clock.advance(restart)
        timelines.end(UID, Step.CREATE, "app")
        timelines.begin(UID, Step.START, "app")
        timelines.end(UID, Step.START, "app")
    view = some(timelines.view(UID))
    assert (view.kind, bars(view)) == ("restart", [("create", "app", 0, 9), ("start", "app", 9, 0)])
    assert [(v.kind, v.total_s) for v in view.earlier] == [("start", 1)]
    timelines.end(UID, Step.READY)
    assert some(timelines.view(UID)).ready
    timelines.end(UID, Step.SANDBOX)
    assert [v.kind for v in (some(timelines.view(UID)), *some(timelines.view(UID)).earlier)] == ["start", "start"]


def test_unknown_and_forgotten_pods_have_no_view() -> None:
    timelines = PodTimelines(VirtualClock())
    assert timelines.view(UID) is None
    timelines.name(REF)
    assert timelines.view(UID) is None
    timelines.end(UID, Step.SEEN)
    assert timelines.view(UID) is not None
    timelines.forget(UID)
    timelines.forget(UID)
    assert timelines.view(UID) is None


def test_the_number_of_pods_is_bounded() -> None:
    timelines = PodTimelines(VirtualClock())
    for i in range(MAX_PODS + 5):
        timelines.end(PodUID(f"u{i}"), Step.SEEN)
    assert timelines.view(PodUID("u4")) is None
    assert timelines.view(PodUID("u5")) is not None


def test_view_round_trips_through_json() -> None:
    timelines = PodTimelines(VirtualClock())
    timelines.pod_seen(pod())
    timelines.begin(UID, Step.PULL, "app")
    view = some(timelines.view(UID))
    assert msgspec.json.decode(msgspec.json.encode(view), type=TimelineView) == view


@given(
    st.lists(
        st.tuples(st.sampled_from(["begin", "end"]), st.sampled_from(list(Step)), st.sampled_from(["", "a", "b"])),
        max_size=60,
    )
)
def test_any_order_of_calls_gives_a_sound_view(calls: list[tuple[str, Step, str]]) -> None:
    timelines = PodTimelines(VirtualClock())
    for call, step, name in calls:
        if call == "begin":
            timelines.begin(UID, step, name)
        else:
            timelines.end(UID, step, name)
    view = timelines.view(UID)
    if view is not None:
        for each in (view, *view.earlier):
            assert each.total_s >= 0
            assert all(s.start_s >= 0 and s.duration_s >= 0 for s in each.steps)
            assert len({(s.step, s.container) for s in each.steps}) == len(each.steps)
        assert len(view.earlier) <= EARLIER_STARTS + 1


async def test_adopted_pod_that_is_ready_has_no_start() -> None:
    clock = VirtualClock(NOW)
    timelines = PodTimelines(clock)
    timelines.pod_seen(pod())
    timelines.begin(UID, Step.VOLUMES)
    await clock.advance(0.04)
    timelines.end(UID, Step.VOLUMES)
    assert some(timelines.view(UID)).kind == "start"
    timelines.end(UID, Step.READY)
    assert timelines.view(UID) is None
    await clock.advance(60)
    timelines.begin(UID, Step.CREATE, "app")
    await clock.advance(2)
    timelines.end(UID, Step.CREATE, "app")
    view = some(timelines.view(UID))
    assert (view.kind, bars(view), view.earlier) == ("restart", [("create", "app", 0, 2)], ())


async def recorded(*, ready: bool) -> TimelineView:
    """The timeline of a start at `NOW`, as an agent stores it that is killed then."""
    clock = VirtualClock(NOW)
    timelines = PodTimelines(clock)
    timelines.pod_seen(pod())
    timelines.begin(UID, Step.SANDBOX)
    await clock.advance(2)
    timelines.end(UID, Step.SANDBOX)
    timelines.begin(UID, Step.CREATE, "app")
    await clock.advance(1)
    if ready:
        timelines.end(UID, Step.CREATE, "app")
        timelines.end(UID, Step.READY)
    return some(timelines.view(UID))


async def test_restored_start_of_an_adopted_pod_stays_the_newest() -> None:
    before = await recorded(ready=True)
    clock = VirtualClock(NOW + 600)
    timelines = PodTimelines(clock)
    timelines.restore({UID: before})
    timelines.pod_seen(pod())
    timelines.begin(UID, Step.VOLUMES)
    await clock.advance(0.04)
    assert some(timelines.view(UID)) == before
    timelines.end(UID, Step.VOLUMES)
    timelines.end(UID, Step.READY)
    timelines.begin(UID, Step.CGROUP)
    timelines.end(UID, Step.CGROUP)
    assert some(timelines.view(UID)) == before
    assert timelines.setup_seconds(UID) == 0
    timelines.begin(UID, Step.SANDBOX)
    view = some(timelines.view(UID))
    assert (view.started_at, view.earlier) == (NOW + 600.04, (before,))


async def test_container_restart_of_an_adopted_pod_follows_its_restored_start() -> None:
    before = await recorded(ready=True)
    clock = VirtualClock(NOW + 600)
    timelines = PodTimelines(clock)
    timelines.restore({UID: before})
    timelines.pod_seen(pod())
    await clock.advance(1)
    timelines.begin(UID, Step.CREATE, "app")
    await clock.advance(1)
    timelines.end(UID, Step.CREATE, "app")
    view = some(timelines.view(UID))
    assert (view.kind, bars(view), view.earlier) == ("restart", [("create", "app", 0, 1)], (before,))
    again = PodTimelines(clock)
    again.restore({UID: view})
    again.pod_seen(pod())
    assert some(again.view(UID)) == view
    again.begin(UID, Step.SANDBOX)
    assert [v.kind for v in some(again.view(UID)).earlier] == ["start"]


async def test_start_that_a_restart_of_the_agent_interrupted_goes_on() -> None:
    before = await recorded(ready=False)
    clock = VirtualClock(NOW + 10)
    timelines = PodTimelines(clock)
    timelines.restore({UID: before})
    timelines.pod_seen(pod())
    interrupted = some(timelines.view(UID))
    assert [(s.step, s.error) for s in interrupted.steps if s.error] == [("create", INTERRUPTED)]
    assert bars(interrupted) == bars(before)
    timelines.begin(UID, Step.CREATE, "app")
    await clock.advance(1)
    timelines.end(UID, Step.CREATE, "app")
    timelines.end(UID, Step.READY)
    view = some(timelines.view(UID))
    assert (view.started_at, view.total_s, view.ready) == (NOW, 11, True)
    assert bars(view)[:2] == [("seen", "", 0, 0), ("sandbox", "", 0, 2)]

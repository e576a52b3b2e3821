"""The steps of a pod's start as spans of one trace."""

from pykubelet.base import tracing
from pykubelet.kubelet.report.timeline import PodTimelines, TracedTimeline
from pykubelet.kubelet.report.timeline.traced_timeline import MAX_OPEN
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.reports.timeline import Step
from pykubelet.testing.clock import VirtualClock
from tests.unit.base.tracing.recorded import recording
from tests.unit.kubelet.report.pods import REF, pod


async def test_steps_until_ready_are_one_trace() -> None:
    clock = VirtualClock()
    timelines = PodTimelines(clock)
    timeline = TracedTimeline(timelines, clock)
    with recording() as recorded:
        timeline.pod_seen(pod())
        timeline.begin(REF.uid, Step.PULL, "main")
        await clock.advance(1.5)
        timeline.end(REF.uid, Step.PULL, "main", "no such image")
        timeline.end(REF.uid, Step.READY)
        timeline.begin(REF.uid, Step.VOLUMES)
        timeline.end(REF.uid, Step.VOLUMES)
        assert recorded.names() == ["pull", "startPod"], "later steps belong to no start"
        pull = recorded["pull"]
        assert recorded.parent("pull") == "startPod"
        assert ((pull.end_time or 0) - (pull.start_time or 0)) / 1e9 == 1.5
        assert pull.status.description == "no such image"
        assert dict(pull.attributes or {}) == {"k8s.pod.uid": REF.uid, "k8s.container.name": "main"}
        assert (recorded["startPod"].attributes or {})["k8s.pod"] == str(REF)
    view = timelines.view(REF.uid)
    assert view is not None
    assert [step.step for step in view.steps] == ["pull", "ready"], "all is passed on"


async def test_steps_within_a_sync_belong_to_it() -> None:
    clock = VirtualClock()
    timeline = TracedTimeline(PodTimelines(clock), clock)
    with recording() as recorded:
        timeline.pod_seen(pod())
        with tracing.span("syncPod", group=REF.uid):
            timeline.begin(REF.uid, Step.CGROUP)
            timeline.end(REF.uid, Step.CGROUP)
        assert recorded.parent("cgroup") == "syncPod"


async def test_steps_that_never_end_are_bounded() -> None:
    clock = VirtualClock()
    timeline = TracedTimeline(PodTimelines(clock), clock)
    with recording() as recorded:
        for number in range(MAX_OPEN + 1):
            timeline.begin(PodUID(f"u{number}"), Step.VOLUMES)
        tracing.begin_group("u0", "root")
        timeline.end(PodUID("u0"), Step.VOLUMES)
        tracing.begin_group("u1", "root")
        timeline.end(PodUID("u1"), Step.VOLUMES)
        assert recorded.names() == ["volumes"], "the oldest was forgotten"

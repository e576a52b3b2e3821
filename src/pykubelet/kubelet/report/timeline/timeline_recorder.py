"""Records begin and end of each step of a pod's start, for the last few starts of each pod."""

from collections.abc import Mapping

from msgspec import Struct, field

from pykubelet.base.clock import Clock
from pykubelet.base.recent_items import RecentItems
from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.shared_values import SharedValues
from pykubelet.kubelet.types.ids import PodRef, PodUID, ref_of
from pykubelet.kubelet.types.reports.timeline import Step
from pykubelet.kubelet.types.reports.timeline_views import Kind, StepView, TimelineView
from pykubelet.models.core_v1 import Pod

EARLIER_STARTS = 3
MAX_PODS = 2048
_OPENING = frozenset({Step.SEEN, Step.SANDBOX})
"""Steps that begin a new start of a pod that was ready."""
_BEFORE_SANDBOX = frozenset({Step.SEEN, Step.QUEUED, Step.CGROUP, Step.VOLUMES})
"""Steps that are also taken for a pod whose containers run already, when the agent has been restarted."""
INTERRUPTED = "interrupted by a restart of the agent"


class _Step(Struct, gc=False):
    begun: Seconds
    ended: Seconds | None = None
    error: str = ""


class _Run(Struct):
    """One start of a pod. Times of steps are monotonic."""

    kind: Kind
    begun: Seconds
    begun_at: Seconds
    steps: dict[tuple[Step, str], _Step] = field(default_factory=dict)
    restored: bool = False
    """Recorded by an earlier run of the agent."""

    @property
    def is_start(self) -> bool:
        """Whether it has come as far as the sandbox. Otherwise the pod may have been started by an earlier agent."""
        return self.kind == "restart" or (Step.SEEN, "") not in self.steps or (Step.SANDBOX, "") in self.steps

    def has_passed(self, key: tuple[Step, str]) -> bool:
        """Whether an earlier agent has taken this step, which every agent takes, in this start."""
        known = self.steps.get(key)
        return self.restored and key[0] in _BEFORE_SANDBOX and known is not None and known.ended is not None

    @property
    def ready(self) -> bool:
        return (Step.READY, "") in self.steps


class _Pod(Struct):
    name: str = ""
    runs: list[_Run] = field(default_factory=list)
    """The last starts, at most `EARLIER_STARTS` and the newest one."""
    restart: _Run | None = None
    """The last restart of containers after the pod had been ready."""
    adopted: bool = False
    """It ran already when the agent was started."""

    def add(self, run: _Run) -> None:
        """Add the newest start; the oldest one is dropped beyond the limit."""
        self.runs = [*self.runs[-EARLIER_STARTS:], run]


class PodTimelines:
    """Implements :class:`pykubelet.kubelet.types.reports.timeline.Timeline`. Bounded in pods and in starts per pod.

    A start begins with the first step of a pod and is over when the pod is ready; a new one begins when a source
    delivers the pod again or it gets a new sandbox. Restarts of single containers are kept apart, only the last one.

    A pod that runs already when the agent is restarted takes the steps before the sandbox again. They are shown only
    until the pod is ready, or one of its containers is restarted: they are no start.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pods: RecentItems[PodUID, _Pod] = RecentItems(_Pod, most=MAX_PODS)

    def pod_seen(self, pod: Pod) -> None:
        """Record that a source has delivered the pod."""
        ref = ref_of(pod)
        self.end(ref.uid, Step.SEEN)
        self.name(ref)

    def name(self, ref: PodRef) -> None:
        """Record the name that belongs to a uid."""
        self._pods.use(ref.uid).name = str(ref)

    def begin(self, uid: PodUID, step: Step, container: str = "") -> None:
        """Begin a step now; beginning it again restarts it."""
        now = self._clock.monotonic()
        run = self._run_for(uid, step, container, now)
        if not run.has_passed((step, container)):
            run.steps[(step, container)] = _Step(now)

    def end(self, uid: PodUID, step: Step, container: str = "", error: str = "") -> None:
        """End a step now; without a begin it is a point in time. Ready counts once per start."""
        now = self._clock.monotonic()
        pod = self._pods.use(uid)
        key = (step, container)
        open_run = next((r for r in (pod.restart, self._last(pod)) if r and key in r.steps), None)
        if open_run is not None and open_run.steps[key].ended is None:
            open_run.steps[key].ended = now
            open_run.steps[key].error = error
            return
        if step is Step.READY:
            self._ready(pod, now)
            return
        run = self._run_for(uid, step, container, now)
        if not run.has_passed(key):
            run.steps[key] = _Step(now, now, error)

    def restore(self, views: Mapping[PodUID, TimelineView]) -> None:
        """Add the timelines that an earlier run of the agent has recorded; pods that are known keep theirs."""
        passed = self._clock.now() - self._clock.monotonic()
        keys = SharedValues()
        for uid, view in views.items():
            if uid in self._pods:
                continue
            pod = self._pods.use(uid)
            pod.name = view.pod
            for each in (*reversed(view.earlier), view):
                run = _run_of(each, each.started_at - passed, keys)
                if run.kind == "restart":
                    pod.restart = run
                else:
                    pod.add(run)

    def forget(self, uid: PodUID) -> None:
        """Drop everything known of a pod."""
        self._pods.pop(uid, None)

    def view(self, uid: PodUID) -> TimelineView | None:
        """Return the newest start of a pod with the earlier ones in it; None if nothing is recorded."""
        pod = self._pods.get(uid)
        runs = [*pod.runs, *([pod.restart] if pod.restart else [])] if pod is not None else []
        runs = [run for run in runs if run.is_start] or runs[-1:]
        if pod is None or not runs:
            return None
        newest, *earlier = (self._view(uid, pod, run) for run in sorted(runs, key=lambda r: r.begun, reverse=True))
        return TimelineView(
            pod=newest.pod,
            uid=newest.uid,
            kind=newest.kind,
            started_at=newest.started_at,
            steps=newest.steps,
            total_s=newest.total_s,
            ready=newest.ready,
            earlier=tuple(earlier),
        )

    def setup_seconds(self, uid: PodUID) -> Seconds:
        """Return the part of the newest start spent on image pulls and init containers.

        The start-up latency indicator leaves it out. Overlapping steps count once.
        """
        pod = self._pods.get(uid)
        run = self._last(pod) if pod is not None else None
        if run is None:
            return 0.0
        now = self._clock.monotonic()
        spans = sorted(
            (each.begun, now if each.ended is None else each.ended)
            for (step, _), each in run.steps.items()
            if step in (Step.PULL, Step.INIT)
        )
        total, done = 0.0, run.begun
        for begun, ended in spans:
            total += max(0.0, ended - max(begun, done))
            done = max(done, ended)
        return total

    def _run_for(self, uid: PodUID, step: Step, container: str, now: Seconds) -> _Run:
        """Return the start that a step beginning now belongs to."""
        pod = self._pods.use(uid)
        last = self._last(pod)
        if last is not None and not last.is_start and step not in _BEFORE_SANDBOX and step is not Step.SANDBOX:
            self._drop_adoption(pod)
            last = self._last(pod)
        started = last.ready if last is not None else pod.adopted
        if step is Step.SANDBOX and (started or (last is not None and not last.is_start)):
            pod.restart = None
        if last is not None and not started:
            return last
        if not started or step in _OPENING:
            pod.add(self._new_run("start", now))
            return pod.runs[-1]
        if step in _BEFORE_SANDBOX:
            return self._new_run("restart", now)  # Part of no start: volumes of a running pod are updated.
        return self._restart(pod, step, container, now)

    def _restart(self, pod: _Pod, step: Step, container: str, now: Seconds) -> _Run:
        known = pod.restart.steps.get((step, container)) if pod.restart else None
        if pod.restart is None or pod.restart.ready or (known is not None and known.ended is not None):
            pod.restart = self._new_run("restart", now)
        return pod.restart

    def _ready(self, pod: _Pod, now: Seconds) -> None:
        last = self._last(pod)
        if last is not None and not last.is_start:
            self._drop_adoption(pod)
        for run in (self._last(pod), pod.restart):
            if run is not None and not run.ready:
                run.steps[(Step.READY, "")] = _Step(now, now)

    @staticmethod
    def _drop_adoption(pod: _Pod) -> None:
        pod.runs.pop()
        pod.adopted = True

    def _new_run(self, kind: Kind, now: Seconds) -> _Run:
        return _Run(kind, now, self._clock.now())

    @staticmethod
    def _last(pod: _Pod) -> _Run | None:
        return pod.runs[-1] if pod.runs else None

    def _view(self, uid: PodUID, pod: _Pod, run: _Run) -> TimelineView:
        now = self._clock.monotonic()
        steps = tuple(
            StepView(
                step=str(step),
                container=container,
                start_s=round(each.begun - run.begun, 6),
                duration_s=round((now if each.ended is None else each.ended) - each.begun, 6),
                error=each.error,
                running=each.ended is None,
            )
            for (step, container), each in sorted(run.steps.items(), key=lambda item: item[1].begun)
        )
        end = run.steps[(Step.READY, "")].begun if run.ready else now
        return TimelineView(
            pod=pod.name,
            uid=uid,
            kind=run.kind,
            started_at=run.begun_at,
            steps=steps,
            total_s=round(end - run.begun, 6),
            ready=run.ready,
        )


def _run_of(view: TimelineView, begun: Seconds, keys: SharedValues) -> _Run:
    """Return the start that a view shows; a step that had not ended was interrupted. ``begun`` is monotonic."""
    steps: dict[tuple[Step, str], _Step] = {}
    for each in view.steps:
        start = begun + each.start_s
        error = INTERRUPTED if each.running else each.error
        steps[keys.of((Step(each.step), each.container))] = _Step(start, start + each.duration_s, error)
    return _Run(view.kind, begun, view.started_at, steps, restored=True)

"""The timeline as spans: the start of a pod is one trace, from the first sight of the pod until it is ready."""

from pykubelet.base import tracing
from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.ids import PodUID, ref_of, trace_attributes
from pykubelet.kubelet.types.reports.timeline import Step, Timeline
from pykubelet.models.core_v1 import Pod

MAX_OPEN = 8192
"""Steps that have begun and not ended; those of pods that were removed meanwhile never end."""


class TracedTimeline:
    """A ``Timeline`` that passes all on to another one, and records its steps as spans.

    The group of a pod's uid is open from ``pod_seen`` until the step ready; the pod's worker ends it for pods that stop
    before they are ready.
    """

    def __init__(self, timeline: Timeline, clock: Clock) -> None:
        self._timeline = timeline
        self._clock = clock
        self._begun: dict[tuple[PodUID, Step, str], Seconds] = {}

    def pod_seen(self, pod: Pod) -> None:
        """Record that a source has delivered the pod, and begin its trace."""
        ref = ref_of(pod)
        tracing.begin_group(ref.uid, "startPod", trace_attributes(ref))
        self._timeline.pod_seen(pod)

    def begin(self, uid: PodUID, step: Step, container: str = "") -> None:
        """Begin a step now."""
        self._begun.pop((uid, step, container), None)
        self._begun[(uid, step, container)] = self._clock.monotonic()
        if len(self._begun) > MAX_OPEN:
            del self._begun[next(iter(self._begun))]
        self._timeline.begin(uid, step, container)

    def end(self, uid: PodUID, step: Step, container: str = "", error: str = "") -> None:
        """End a step now, and record its span; ready ends the trace."""
        begun = self._begun.pop((uid, step, container), None)
        if begun is not None:
            now = self._clock.now()
            times = (now - (self._clock.monotonic() - begun), now)
            attributes = {"k8s.pod.uid": uid} | ({"k8s.container.name": container} if container else {})
            tracing.record(str(step), times, attributes, error=error, group=uid)
        if step is Step.READY:
            tracing.end_group(uid)
        self._timeline.end(uid, step, container, error)

"""Metrics of starts and ends of pods and containers, from the changes of their statuses."""

from collections.abc import Callable

from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.metrics.instruments import Instruments
from pykubelet.kubelet.report.metrics.metric_types import (
    CONTAINER_TYPES,
    newly_failed_to_start,
    newly_started,
    newly_terminated,
    sandbox_newly_ready,
)
from pykubelet.kubelet.report.metrics.resizes import ResizeGauges
from pykubelet.kubelet.report.status.status_types import PENDING, RUNNING
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.reports.status_changes import StatusChange
from pykubelet.kubelet.types.updates import is_static
from pykubelet.models.core_v1 import Pod, PodStatus


class PodStarts:
    """Counts starts and ends, and measures starts."""

    def __init__(
        self,
        *,
        instruments: Instruments,
        clock: Clock,
        setup_seconds: Callable[[PodUID], Seconds],
        forgotten: Callable[[PodUID], None],
    ) -> None:
        """``setup_seconds`` returns the part of a pod's start spent on image pulls and init containers; ``forgotten``
        is called with the uid of a pod that is gone."""
        self._own = instruments
        self._clock = clock
        self._setup_seconds = setup_seconds
        self._forgotten = forgotten
        self._resizes = ResizeGauges(instruments)
        self._network_seen = False
        self._pending: dict[PodUID, Seconds] = {}
        """Time at which each pending pod was first seen, by uid."""
        self._failed_with_users: set[PodUID] = set()
        """Pods with a user namespace that have failed to start since their sandbox was made: they count once."""

    def pod_changed(self, before: Pod, now: Pod) -> None:
        """Count the resizes that a new version of a pod requests; none if its spec is the same."""
        self._resizes.spec_changed(before, now)

    def status_changed(self, change: StatusChange) -> None:
        """Count starts and ends of pods and containers, and measure starts; a status manager subscriber.

        Pods that a restarted agent finds running have no status before, so they do not count as started.
        """
        now = change.current
        self._resizes.status_changed(change.previous, now)
        if now is None:
            self._forget(change.uid)
            return
        for kind, exit_code, reason in newly_terminated(change.previous, now):
            self._own.terminated_containers.labels(CONTAINER_TYPES[kind], str(exit_code), reason).inc()
        if change.previous is not None:
            self._count_starts(change.pod, change.previous, now)
        if now.phase == PENDING:
            self._pending.setdefault(change.uid, self._clock.monotonic())
            return
        seen = self._pending.pop(change.uid, None)
        if seen is not None and now.phase == RUNNING:
            self._own.pod_start_duration.observe(self._clock.monotonic() - seen)
            self._measure_from_creation(change.pod)

    def _measure_from_creation(self, pod: Pod) -> None:
        """Record the start latency; not for static pods, whose creation time is when the manifest was read."""
        created = pod.metadata.creation_timestamp
        if created is not None and not is_static(pod):
            total = self._clock.now() - created.timestamp()
            self._own.pod_start_total_duration.observe(max(0.0, total))
            alone = max(0.0, total - self._setup_seconds(ref_of(pod).uid))
            self._own.pod_start_sli_duration.observe(alone)
            if not pod.spec.host_network and not self._network_seen:
                self._network_seen = True
                self._own.first_network_start.set(alone)

    def _count_starts(self, pod: Pod, before: PodStatus, now: PodStatus) -> None:
        for kind in newly_started(before, now):
            self._own.started_containers.labels(CONTAINER_TYPES[kind]).inc()
        own_users, uid = pod.spec.host_users is False, ref_of(pod).uid
        if sandbox_newly_ready(before, now):
            self._own.started_pods.inc()
            if own_users:
                self._own.started_user_namespaced.inc()
                self._failed_with_users.discard(uid)
            self._own.containers_per_pod.observe(len(pod.spec.containers))
        failed = newly_failed_to_start(before, now)
        for kind, reason in failed:
            self._own.started_containers_errors.labels(CONTAINER_TYPES[kind], reason).inc()
        if own_users and failed and uid not in self._failed_with_users:
            self._failed_with_users.add(uid)
            self._own.started_user_namespaced_errors.inc()

    def _forget(self, uid: PodUID) -> None:
        self._pending.pop(uid, None)
        self._failed_with_users.discard(uid)
        self._forgotten(uid)

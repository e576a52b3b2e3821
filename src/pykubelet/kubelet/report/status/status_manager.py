"""Owns the status of every pod: keeps it in memory and notifies subscribers of changes."""

import logging
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.status.plan.invariants import final_status, forward_only
from pykubelet.kubelet.report.status.plan.pod_status import (
    compute_pod_status,
    disruption_target,
    is_settled,
    of_present_containers,
    rejected_status,
    with_reported,
    withheld,
)
from pykubelet.kubelet.report.status.status_interfaces import StartTimes, StatusNode
from pykubelet.kubelet.report.status.status_types import RUNNING, StatusContext, StatusEntry
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.outcome import SyncAction
from pykubelet.kubelet.types.reports.status_changes import StatusChange
from pykubelet.kubelet.types.reports.status_input import StatusInput
from pykubelet.kubelet.types.resources.resize import NOT_RESIZING, ResizeState
from pykubelet.kubelet.types.runtime import ContainerState
from pykubelet.kubelet.types.updates import is_static
from pykubelet.models.core_v1 import Pod, PodStatus
from pykubelet.models.scalars import time_from_unix

_log = logging.getLogger(__name__)
_CONTAINER_ACTIONS = frozenset({SyncAction.START_CONTAINER, SyncAction.INIT_CONTAINER})

Subscriber = Callable[[StatusChange], None]


class StatusManager:
    """The statuses by pod uid. Not thread-safe; subscribers are called during a change and must be quick."""

    def __init__(
        self,
        *,
        clock: Clock,
        node: StatusNode,
        resizes: Callable[[PodUID], ResizeState] = lambda uid: NOT_RESIZING,
        starts: StartTimes | None = None,
        mirror_of: Callable[[Pod], Pod | None] = lambda pod: None,
        subscribers: Iterable[Subscriber] = (),
    ) -> None:
        """Create an empty manager. ``resizes`` returns how far a pod's resize has progressed; ``starts`` has the start
        times that an earlier run of the agent has recorded; ``mirror_of`` returns the mirror pod of the current version
        of a static pod, which has the status that an earlier run has reported; ``subscribers`` are called with every
        change."""
        self._starts = starts
        self._mirror_of = mirror_of
        self._clock = clock
        self._node = node
        self._resizes = resizes
        self._entries: dict[PodUID, StatusEntry] = {}
        self._unmirrored: dict[PodUID, StatusInput] = {}
        """Of static pods that are not ready while their mirror pods are unknown: what their workers know."""
        self._subscribers: list[Subscriber] = list(subscribers)
        self._version = 0

    @property
    def version(self) -> int:
        """The version of the newest change."""
        return self._version

    def update(self, pod: Pod, source: StatusInput) -> PodStatus:
        """Compute the pod's status from what its worker knows, keep it and return it."""
        waiting = {f.target: f for f in source.failures if f.action in _CONTAINER_ACTIONS}
        uid = ref_of(pod).uid
        before = self._before(pod, stopped=source.stopped)
        reported = self._reported_before(pod, source) if before is None or uid in self._unmirrored else None
        ctx = StatusContext(
            now=self._clock.now(),
            previous=before if reported is None else with_reported(before, reported),
            probes=source.probes,
            waiting=waiting,
            host_ips=self._node.host_ips,
            terminating=source.terminating,
            stopped=source.stopped,
            terminal_reason=source.terminal_reason,
            terminal_message=source.terminal_message,
            disruption=disruption_target(source.disruption_reason, source.disruption_message),
            runtime_name=self._node.runtime_name,
            resize=self._resizes(uid),
            recursive_read_only=self._node.recursive_read_only(pod.spec.runtime_class_name),
            started=self._started(pod),
        )
        status = compute_pod_status(pod, source.runtime, ctx)
        if is_static(pod) and self._mirror_of(pod) is None and not is_settled(status):
            self._unmirrored[uid] = source
        else:
            self._unmirrored.pop(uid, None)
        may_run = not source.stopped and any(c.state is not ContainerState.EXITED for c in source.runtime.containers)
        return self._keep(pod, status, before=before, terminating=source.terminating, may_run=may_run)

    def mirror_seen(self, pod: Pod) -> None:
        """Handle a mirror pod of a static pod: if none was known, its status says what this agent did not know."""
        source = self._unmirrored.get(ref_of(pod).uid)
        if source is not None:
            self.update(pod, source)

    def _before(self, pod: Pod, *, stopped: bool) -> PodStatus | None:
        """Return the last status as computed; ``stopped``: with the phase that others have seen.

        While a pod is being stopped, it counts as Failed here; how it has ended is known, and published, afterwards.
        """
        entry = self._entries.get(ref_of(pod).uid)
        if entry is None or not stopped:
            return entry.status if entry is not None else None
        seen = entry.published
        return replace(entry.status, phase=seen.phase, reason=seen.reason, message=seen.message)

    def _reported_before(self, pod: Pod, source: StatusInput) -> PodStatus | None:
        """Return what an earlier run of the agent has reported of a static pod that still runs; None for all others.

        The object of a static pod has no status, so after a restart of the agent its containers would not be ready
        until their first probes.
        """
        mirror = self._mirror_of(pod) if is_static(pod) else None
        if mirror is None or mirror.status.phase != RUNNING:
            return None
        return of_present_containers(mirror.status, source.runtime)

    def reject(self, pod: Pod, reason: str, message: str) -> PodStatus:
        """Set the status of a pod rejected at admission: Failed, with that reason."""
        started = self._started(pod)
        at = self._clock.now() if started is None else started
        return self._keep(pod, rejected_status(pod, reason, message, at), finished=True)

    def terminate(self, pod: Pod, status: PodStatus | None = None) -> PodStatus:
        """Set the final status of a pod of which nothing runs any more; ``status`` defaults to the last one."""
        if status is None:
            known = self.get(ref_of(pod).uid)
            status = known if known is not None else pod.status
        return self._keep(pod, final_status(pod, status), finished=True)

    def get(self, uid: PodUID) -> PodStatus | None:
        """Return the status of a pod as computed; None before its first and after it was removed."""
        entry = self._entries.get(uid)
        return entry.status if entry is not None else None

    def entry(self, uid: PodUID) -> StatusEntry | None:
        """Return everything that is kept of a pod."""
        return self._entries.get(uid)

    def snapshot(self) -> tuple[StatusEntry, ...]:
        """Return the entries of all pods, in the order in which they were added."""
        return tuple(self._entries.values())

    def remove(self, uid: PodUID) -> None:
        """Forget a pod. Idempotent."""
        entry = self._entries.pop(uid, None)
        self._unmirrored.pop(uid, None)
        if entry is not None:
            self._version += 1
            self._tell(StatusChange(entry.pod, entry.published, None, self._version))
        if self._starts is not None:
            self._starts.forget(uid)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call ``subscriber`` with every change from now on; return the function that unsubscribes."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def _started(self, pod: Pod) -> Seconds | None:
        return self._starts.get(ref_of(pod).uid) if self._starts is not None else None

    def _keep(
        self,
        pod: Pod,
        status: PodStatus,
        *,
        before: PodStatus | None = None,
        finished: bool = False,
        terminating: bool = False,
        may_run: bool = False,
    ) -> PodStatus:
        uid = ref_of(pod).uid
        old = self._entries.get(uid)
        if before is None:
            before = old.status if old is not None else pod.status
        status = forward_only(pod, before, status)
        known = old.published if old is not None else None
        published = withheld(known if known is not None else pod.status, status) if may_run else status
        finished = finished or (old is not None and old.finished)
        since = old.terminating_since if old is not None else None
        if since is None and terminating:
            since = time_from_unix(self._clock.now())
        entry = StatusEntry(pod, status, published, self._version, finished, since)
        if old is not None and old.pod is pod and replace(old, version=self._version) == entry:
            return status
        self._version += 1
        self._entries[uid] = replace(entry, version=self._version)
        if known is None or known.phase != published.phase:
            fields = {"pod": str(ref_of(pod)), "uid": uid, "phase": published.phase, "reason": published.reason}
            _log.info("pod phase changed", extra=fields | {"before": known.phase if known is not None else ""})
        self._tell(StatusChange(pod, known, published, self._version))
        return status

    def _tell(self, change: StatusChange) -> None:
        for subscriber in tuple(self._subscribers):
            subscriber(change)

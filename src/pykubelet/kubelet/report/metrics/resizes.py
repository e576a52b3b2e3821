"""Gauges of pods with pending resizes and resizes in progress, kept up to date by status changes."""

from typing import Final

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.report.metrics.instruments import Instruments
from pykubelet.kubelet.report.metrics.plan.resize_counts import requested_resizes
from pykubelet.models.core_v1 import Pod, PodCondition, PodStatus

_PENDING: Final = "PodResizePending"
_IN_PROGRESS: Final = "PodResizeInProgress"
_INFEASIBLE: Final = "Infeasible"


class ResizeGauges:
    """Updated by :meth:`KubeletMetrics.status_changed`."""

    def __init__(self, instruments: Instruments) -> None:
        self._own = instruments

    def spec_changed(self, before: Pod, now: Pod) -> None:
        """Count the resizes that a new spec requests."""
        try:
            for labels in list(requested_resizes(before, now)):
                self._own.requested_resizes.labels(*labels).inc()
        except Invalid:
            return  # admission reports it

    def status_changed(self, before: PodStatus | None, now: PodStatus | None) -> None:
        """Update the gauges after a status change; ``before`` is None at first, ``now`` after the last."""
        waited, waits = _find(before, _PENDING), _find(now, _PENDING)
        if waited is not None:
            self._own.pending_resizes.labels(waited.reason.lower()).dec()
        if waits is not None:
            self._own.pending_resizes.labels(waits.reason.lower()).inc()
            if waits.reason == _INFEASIBLE and (waited is None or _state_of(waited) != _state_of(waits)):
                self._own.infeasible_resizes.labels(_detail(waits.message)).inc()
        self._own.resizes_in_progress.inc(
            (_find(now, _IN_PROGRESS) is not None) - (_find(before, _IN_PROGRESS) is not None)
        )


def _find(status: PodStatus | None, kind: str) -> PodCondition | None:
    return next((c for c in status.conditions if c.type == kind), None) if status is not None else None


def _state_of(condition: PodCondition) -> tuple[str, int | None]:
    return condition.reason, condition.observed_generation


def _detail(message: str) -> str:
    return "swap_limitation" if "swap" in message else "insufficient_node_allocatable"

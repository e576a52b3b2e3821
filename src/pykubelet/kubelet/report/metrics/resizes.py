"""How many pods wait for another size and how many are being given one, counted by the changes of their status."""

from typing import Final

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.report.metrics.compute_resizes import requested_resizes
from pykubelet.kubelet.report.metrics.instruments import Instruments
from pykubelet.models.core_v1 import Pod, PodCondition, PodStatus

_PENDING: Final = "PodResizePending"
_IN_PROGRESS: Final = "PodResizeInProgress"
_INFEASIBLE: Final = "Infeasible"


class ResizeCounts:
    """Fed by the metrics' subscription to the status manager."""

    def __init__(self, instruments: Instruments) -> None:
        self._own = instruments

    def wished(self, before: Pod, now: Pod) -> None:
        """A pod has another spec."""
        try:
            for labels in list(requested_resizes(before, now)):
                self._own.requested_resizes.labels(*labels).inc()
        except Invalid:
            return  # admission tells of it

    def changed(self, before: PodStatus | None, now: PodStatus | None) -> None:
        """A pod's status has changed; None before the first and after the last."""
        waited, waits = _find(before, _PENDING), _find(now, _PENDING)
        if waited is not None:
            self._own.pending_resizes.labels(waited.reason.lower()).dec()
        if waits is not None:
            self._own.pending_resizes.labels(waits.reason.lower()).inc()
            if waits.reason == _INFEASIBLE and (waited is None or _wish(waited) != _wish(waits)):
                self._own.infeasible_resizes.labels(_detail(waits.message)).inc()
        self._own.resizes_in_progress.inc(
            (_find(now, _IN_PROGRESS) is not None) - (_find(before, _IN_PROGRESS) is not None)
        )


def _find(status: PodStatus | None, kind: str) -> PodCondition | None:
    return next((c for c in status.conditions if c.type == kind), None) if status is not None else None


def _wish(condition: PodCondition) -> tuple[str, int | None]:
    return condition.reason, condition.observed_generation


def _detail(message: str) -> str:
    return "swap_limitation" if "swap" in message else "insufficient_node_allocatable"

"""Whether a pod that was admitted is rejected since it cannot be prepared on this node (pure)."""

from collections.abc import Iterable

from pykubelet.kubelet.types.admission import REJECTIONS
from pykubelet.kubelet.types.outcome import Failure


def rejection_of(failures: Iterable[Failure]) -> Failure | None:
    """Return the failure for which the pod is rejected, so that its controller replaces it; None: it is retried."""
    return next((failure for failure in failures if failure.reason in REJECTIONS), None)

"""activeDeadlineSeconds: how long a pod may be active on its node (pure)."""

from pykubelet.base.units import Seconds
from pykubelet.models.core_v1 import Pod


def deadline_of(pod: Pod, started: Seconds | None) -> Seconds | None:
    """Return when the pod's active deadline ends, on the clock of ``started``.

    None: the pod has no deadline, or has not started.
    """
    seconds = pod.spec.active_deadline_seconds
    return None if seconds is None or started is None else started + seconds

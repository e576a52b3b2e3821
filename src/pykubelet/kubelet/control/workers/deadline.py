"""activeDeadlineSeconds: how long a pod may be active on its node (pure)."""

from pykubelet.models.core_v1 import Pod, PodStatus


def deadline_of(pod: Pod, status: PodStatus) -> float | None:
    """Unix time at which the pod's active deadline ends; None without one, or before the pod has started."""
    seconds = pod.spec.active_deadline_seconds
    if seconds is None or status.start_time is None:
        return None
    return status.start_time.timestamp() + seconds

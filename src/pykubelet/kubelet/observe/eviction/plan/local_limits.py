"""Local storage limits of an emptyDir, of a pod and of a container, and their violations (pure)."""

from pykubelet.kubelet.observe.eviction.eviction_types import ContainerUse, Disks, DiskUse, Eviction, PodUse
from pykubelet.kubelet.observe.eviction.plan.ranking import STORAGE, quantity
from pykubelet.kubelet.types.resources.pod_requests import pod_limits, requirements
from pykubelet.models.core_v1 import Pod
from pykubelet.models.quantity import parse

GRACE = 1
"""Grace period in seconds of a pod that is evicted at once."""


def has_limits(pod: Pod) -> bool:
    """Whether the pod has a limit of local storage."""
    limited = any(STORAGE in requirements(c).limits for c in (*pod.spec.containers, *pod.spec.init_containers))
    return limited or any(v.empty_dir is not None and v.empty_dir.size_limit for v in pod.spec.volumes)


def exceeded(pod: Pod, use: PodUse, disks: Disks) -> Eviction | None:
    """Return the eviction for the first limit that the pod exceeds, or None.

    Writable layers count for the limit of a container only if they are on the node's file system.
    """
    for volume in pod.spec.volumes:
        if volume.empty_dir is not None and volume.empty_dir.size_limit:
            most = parse(volume.empty_dir.size_limit)
            if 0 < most.value < use.volumes.get(volume.name, DiskUse()).bytes:
                message = f'Usage of EmptyDir volume "{volume.name}" exceeds the limit "{most}". '
                return Eviction(message, "emptydirfs.limit", GRACE, disrupts=False)
    limits = pod_limits(pod)
    if STORAGE in limits and use.disk > limits.amount(STORAGE).value:
        total = quantity(limits.amount(STORAGE).value, binary=True)
        message = f"Pod ephemeral local storage usage exceeds the total limit of containers {total}. "
        return Eviction(message, "ephemeralpodfs.limit", GRACE, disrupts=False)
    for container in pod.spec.containers:
        most = parse(requirements(container).limits.get(STORAGE, 0))
        known = use.containers.get(container.name, ContainerUse())
        used = (known.logs or DiskUse()).bytes + (0 if disks.own_images else (known.rootfs or DiskUse()).bytes)
        if 0 < most.value < used:
            message = f'Container {container.name} exceeded its local ephemeral storage limit "{most}". '
            return Eviction(message, "ephemeralcontainerfs.limit", GRACE, disrupts=False)
    return None

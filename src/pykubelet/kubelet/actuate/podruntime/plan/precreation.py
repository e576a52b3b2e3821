"""Selects the containers to pre-create while an init container still runs, so that later they only start. Pure.

The mounts of a container are fixed when it is created. So a container is pre-created only if the running init
containers can change nothing about it but the contents of its volumes.
"""

from collections.abc import Iterable

from pykubelet.kubelet.actuate.cri_messages.environment.env import env_files
from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.kubelet.types.runtime import PodRuntimeStatus
from pykubelet.models.core_v1 import Container, Pod

_PRIVATE = ("", "None")


def precreatable_containers(pod: Pod, started: str, status: PodRuntimeStatus) -> tuple[Container, ...]:
    """Containers that follow the init container ``started`` (the next, or all ordinary ones) and may be created now.

    Only first attempts are pre-created; restarts are created when their back-off has passed.
    """
    names = [c.name for c in pod.spec.init_containers]
    if started not in names or _can_mount(pod.spec.init_containers):
        return ()
    after = pod.spec.init_containers[names.index(started) + 1 :][:1] or pod.spec.containers
    seen = {c.name for c in status.containers}
    return tuple(c for c in after if c.name not in seen and not _depends_on_volume_content(pod, c))


def _can_mount(containers: Iterable[Container]) -> bool:
    """Whether any of the containers can create mounts or change the node (privileged, or mount propagation)."""
    return any(
        (c.security_context is not None and c.security_context.privileged)
        or any(mount.mount_propagation not in _PRIVATE for mount in c.volume_mounts)
        for c in containers
    )


def _depends_on_volume_content(pod: Pod, container: AnyContainer) -> bool:
    """Whether creating the container depends on the contents of its volumes or of directories of the node."""
    outside = {v.name for v in pod.spec.volumes if v.host_path is not None or v.image is not None}
    return bool(env_files(container)) or any(
        mount.sub_path or mount.sub_path_expr or mount.mount_propagation not in _PRIVATE or mount.name in outside
        for mount in container.volume_mounts
    )

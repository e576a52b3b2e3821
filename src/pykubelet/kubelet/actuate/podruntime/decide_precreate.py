"""Which containers may be created while an init container still runs, so that they only have to be started. Pure.

A container's mounts are taken as they are when it is created. So only those are made ahead of which the work of the
init containers cannot change anything but the contents of their volumes.
"""

from collections.abc import Iterable

from pykubelet.kubelet.actuate.criconfig.env import env_files
from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.kubelet.types.runtime import PodRuntimeStatus
from pykubelet.models.core_v1 import Container, Pod

_PRIVATE = ("", "None")


def precreatable_containers(pod: Pod, started: str, status: PodRuntimeStatus) -> tuple[Container, ...]:
    """What comes after the init container ``started`` (the next of them, or all ordinary ones) and may be created now.

    Nothing of it may have been there before: restarts are made when their time has come.
    """
    names = [c.name for c in pod.spec.init_containers]
    if started not in names or _reaches_out(pod.spec.init_containers):
        return ()
    after = pod.spec.init_containers[names.index(started) + 1 :][:1] or pod.spec.containers
    seen = {c.name for c in status.containers}
    return tuple(c for c in after if c.name not in seen and not _looks_into_volumes(pod, c))


def _reaches_out(containers: Iterable[Container]) -> bool:
    """Whether containers may mount something, or change the node."""
    return any(
        (c.security_context is not None and c.security_context.privileged)
        or any(mount.mount_propagation not in _PRIVATE for mount in c.volume_mounts)
        for c in containers
    )


def _looks_into_volumes(pod: Pod, container: AnyContainer) -> bool:
    """Whether making the container depends on what is in its volumes, or in the node's directories."""
    outside = {v.name for v in pod.spec.volumes if v.host_path is not None or v.image is not None}
    return bool(env_files(container)) or any(
        mount.sub_path or mount.sub_path_expr or mount.mount_propagation not in _PRIVATE or mount.name in outside
        for mount in container.volume_mounts
    )

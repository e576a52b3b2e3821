"""emptyDir: an empty directory that lives as long as the pod, on disk, in memory or in huge pages.

The size limit is enforced here for volumes in memory; for those on disk the eviction manager watches it.
"""

from collections.abc import Callable
from typing import Final

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.actuate.volumes.kinds import directories
from pykubelet.kubelet.actuate.volumes.plan import pod_volumes
from pykubelet.kubelet.actuate.volumes.volume_types import SetUpRequest, VolumeAttributes, Work
from pykubelet.kubelet.types.resources.pod_requests import MEMORY
from pykubelet.models.core_v1 import EmptyDirVolumeSource

_MEMORY: Final = "Memory"


class EmptyDir:
    """Plugin for emptyDir volumes. The directory is created once; its content belongs to the pod."""

    name = "kubernetes.io/empty-dir"
    attributes = VolumeAttributes()

    def prepare(self, request: SetUpRequest) -> Work:
        source = request.volume.empty_dir or EmptyDirVolumeSource()
        return Work(_maker(request, source))


def _maker(request: SetUpRequest, source: EmptyDirVolumeSource) -> Callable[[], None]:
    path, group = request.path, request.fs_group
    if source.medium == "":
        security = request.pod.spec.security_context
        policy = security.fs_group_change_policy if security else ""
        return lambda: directories.make_on_disk(path, group, policy)
    if source.medium == _MEMORY:
        return lambda: make_in_memory(request, source)
    if source.medium == pod_volumes.HUGE_PAGES or source.medium.startswith(f"{pod_volumes.HUGE_PAGES}-"):
        size = pod_volumes.huge_page_size(request.pod, source.medium)
        return lambda: directories.make_of_huge_pages(path, group, size)
    raise Invalid(f'unknown storage medium "{source.medium}"')


def make_in_memory(request: SetUpRequest, source: EmptyDirVolumeSource | None = None) -> None:
    """Create a directory in memory, for secrets too; the size is limited as for an emptyDir."""
    allocatable = request.context.downward.allocatable.get(MEMORY)
    size = pod_volumes.tmpfs_size(request.pod, allocatable, source.size_limit if source else None)
    directories.make_in_memory(request.path, request.fs_group, size)

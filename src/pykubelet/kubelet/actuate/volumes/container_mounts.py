"""Plans the mount for each entry of a container's `volumeMounts`, without doing anything yet."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.kubelet.actuate.actuate_types import HostMount
from pykubelet.kubelet.actuate.volumes.mount.subpath import SubPath
from pykubelet.kubelet.actuate.volumes.plan import pod_volumes
from pykubelet.kubelet.actuate.volumes.pod_directories import PodDirs
from pykubelet.kubelet.actuate.volumes.volume_types import VolumeAttributes
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.models.core_v1 import ImageVolumeSource, VolumeMount


class PlannedMount(Struct, frozen=True):
    """Mount of a container, and what has to be done before it can be used."""

    mount: HostMount
    sub_path: SubPath | None = None
    """subPath to bind-mount first."""
    image: ImageVolumeSource | None = None
    """Image to pull first."""


class MountedVolume(Struct, frozen=True):
    """A volume that is set up."""

    path: str
    """Empty for an image volume."""
    attributes: VolumeAttributes
    image: ImageVolumeSource | None


class MountPlace(Struct, frozen=True):
    """Container and index of an entry of `volumeMounts`."""

    uid: PodUID
    container: str
    index: int


def plan(
    dirs: PodDirs, place: MountPlace, mount: VolumeMount, volume: MountedVolume, *, env: Mapping[str, str], rro: bool
) -> PlannedMount:
    """Plan a mount by its spec. `rro`: whether the runtime supports recursive read-only mounts.

    Raises Invalid or NotFound with the messages of the Go kubelet.
    """
    relative = pod_volumes.sub_path(mount, env)
    host_mount = HostMount(
        container_path=pod_volumes.container_path(mount.mount_path),
        host_path=volume.path,
        read_only=bool(mount.read_only) or volume.attributes.read_only,
        recursive_read_only=pod_volumes.recursive_read_only(mount, rro),
        propagation=pod_volumes.propagation(mount),
        selinux_relabel=volume.attributes.selinux_relabel,
        name=mount.name,
    )
    if volume.image is not None:
        return PlannedMount(replace(host_mount, image_sub_path=relative), image=volume.image)
    if not relative:
        return PlannedMount(host_mount)
    target = dirs.of_volumes.subpath(place.uid, mount.name, place.container, place.index)
    sub_path = SubPath(volume.path, relative, target)
    return PlannedMount(replace(host_mount, host_path=str(target)), sub_path)

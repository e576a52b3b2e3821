"""Devices and supplemental groups that containers get from volumes."""

from collections.abc import Callable, Iterable
from pathlib import Path

from pykubelet.kubelet.actuate.actuate_types import VolumeError
from pykubelet.kubelet.actuate.cri_messages.config_types import HostDevice
from pykubelet.kubelet.actuate.volumes.plan.claims import supplemental_group
from pykubelet.kubelet.actuate.volumes.volume_source import Source
from pykubelet.kubelet.types.podspec import AnyContainer


def devices_of(
    container: AnyContainer, find: Callable[[str], Source | None], path: Callable[[Source], Path]
) -> tuple[HostDevice, ...]:
    """Host devices for ``volumeDevices``; ``find`` returns volumes that are set up. Raises VolumeError for others."""
    found = []
    for device in container.volume_devices:
        source = find(device.name)
        if source is None or not source.block:
            raise VolumeError(
                device.name, f'cannot find volume "{device.name}" to pass into container "{container.name}"'
            )
        permissions = "r" if source.read_only else "mrw"
        found.append(HostDevice(str(path(source)), device.device_path, permissions))
    return tuple(found)


def groups_of(sources: Iterable[Source]) -> tuple[int, ...]:
    """Supplemental groups that PersistentVolumes require by annotation."""
    groups = [supplemental_group(source.pv) for source in sources if source.pv is not None]
    return tuple(dict.fromkeys(group for group in groups if group is not None))

"""What containers get of volumes beside mounts: devices, and groups that may use them."""

from collections.abc import Callable, Iterable
from pathlib import Path

from pykubelet.kubelet.actuate.criconfig.types import HostDevice
from pykubelet.kubelet.actuate.types import VolumeError
from pykubelet.kubelet.actuate.volumes.decide_claims import supplemental_group
from pykubelet.kubelet.actuate.volumes.source import Source
from pykubelet.kubelet.types.podspec import AnyContainer


def devices_of(
    container: AnyContainer, find: Callable[[str], Source | None], path: Callable[[Source], Path]
) -> tuple[HostDevice, ...]:
    """The container's ``volumeDevices``; ``find`` gives volumes that are set up. VolumeError for one that is not."""
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
    """The groups that administrators gave to volumes by an annotation."""
    groups = [supplemental_group(source.pv) for source in sources if source.pv is not None]
    return tuple(dict.fromkeys(group for group in groups if group is not None))

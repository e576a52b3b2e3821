"""Paths and records of CSI volumes on this node, in the layout of the Go kubelet. All functions block.

    ROOT/plugins_registry/NAME-reg.sock                                     registration socket of a driver
    ROOT/plugins/DRIVER/csi.sock                                            CSI socket of a driver (it chooses the path)
    ROOT/plugins/kubernetes.io/csi/DRIVER/SHA256/globalmount                a staged volume
    ROOT/plugins/kubernetes.io/csi/DRIVER/SHA256/vol_data.json              its record
    ROOT/pods/UID/volumes/kubernetes.io~csi/NAME/mount                      a published volume
    ROOT/pods/UID/volumes/kubernetes.io~csi/NAME/vol_data.json              its record
    ROOT/plugins/kubernetes.io/csi/volumeDevices/staging/NAME               a staged device
    ROOT/plugins/kubernetes.io/csi/volumeDevices/publish/NAME/UID           a published device
    ROOT/plugins/kubernetes.io/csi/volumeDevices/NAME/data/vol_data.json    its record
    ROOT/pods/UID/volumeDevices/kubernetes.io~csi/NAME                      link to the published device

A record is written before the driver is called, and removed after the driver has undone the operation. So after a
crash all operations can be found and undone, by this agent or by the Go kubelet.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from pykubelet.base.errors import Invalid, Transient
from pykubelet.base.files.atomic import write_atomic
from pykubelet.base.files.decoding import convert
from pykubelet.base.files.documents import read_json
from pykubelet.base.files.safe_path import read_regular
from pykubelet.base.files.state_files import clear_path
from pykubelet.kubelet.actuate.volumes.csi.csi_types import (
    MOUNT,
    PLUGIN,
    CsiVolume,
    PublishedVolume,
    Record,
    StagedVolume,
    VolumeRef,
)
from pykubelet.kubelet.actuate.volumes.pod_directories import PodDirs, component
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.linux.errors import raise_passing
from pykubelet.linux.filesystems.mountinfo import is_mount_point

_log = logging.getLogger(__name__)
_MAX_FILE: Final = 1 << 20
_RECORD: Final = "vol_data.json"
_GLOBAL: Final = "globalmount"
_DEVICES: Final = "volumeDevices"
_DIRECTORY_MODE: Final = 0o750
_FILE_MODE: Final = 0o644
_EPHEMERAL: Final = "Ephemeral"
_PERSISTENT: Final = "Persistent"
_ESCAPED: Final = PLUGIN.replace("/", "~")


class CsiLayout:
    """Paths and records below the agent's root directory."""

    def __init__(self, dirs: PodDirs) -> None:
        self._dirs = dirs
        self.registry = dirs.root / "plugins_registry"
        self._staging = dirs.root / "plugins" / PLUGIN

    def prepare(self) -> None:
        """Create the directories that the pods of drivers expect."""
        for directory in (self.registry, self._dirs.root / "plugins"):
            directory.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)

    # -- paths

    def path(self, uid: PodUID, name: str, *, block: bool) -> Path:
        """Target path for publishing a volume to a pod."""
        if block:
            return self._devices / "publish" / component(name) / component(uid)
        return self._dirs.of_volumes.volume(uid, PLUGIN, name) / MOUNT

    def stage(self, volume: CsiVolume) -> Path:
        """Path for staging a volume."""
        if volume.block:
            return self._devices / "staging" / component(volume.name)
        digest = sha256(volume.ref.handle.encode()).hexdigest()
        return self._staging / component(volume.ref.driver) / digest / _GLOBAL

    def device(self, uid: PodUID, name: str) -> Path:
        """Path of the link to a pod's device."""
        return self._dirs.pod(uid) / _DEVICES / _ESCAPED / component(name)

    @property
    def _devices(self) -> Path:
        return self._staging / _DEVICES

    # -- before the driver is called

    def prepare_stage(self, volume: CsiVolume) -> Path:
        """Create the staging directory and the record; return the path."""
        path = self.stage(volume)
        path.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
        fields = {"driverName": volume.ref.driver, "volumeHandle": volume.ref.handle}
        _write(self._record_of_device(volume.name) if volume.block else path.parent, fields)
        return path

    def prepare_publish(self, uid: PodUID, volume: CsiVolume, node: str, attachment: str) -> Path:
        """Create the target's parent directory and the record; return the target, which the driver creates."""
        target = self.path(uid, volume.name, block=volume.block)
        target.parent.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
        fields = {
            "attachmentID": attachment,
            "driverName": volume.ref.driver,
            "nodeName": node,
            "specVolID": volume.name,
            "volumeHandle": volume.ref.handle,
            "volumeLifecycleMode": _EPHEMERAL if volume.ephemeral else _PERSISTENT,
        }
        if volume.block:
            link = self.device(uid, volume.name)
            link.parent.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
            if not link.is_symlink():
                link.symlink_to(target)
        _write(self._record_of_device(volume.name) if volume.block else target.parent, fields)
        return target

    def _record_of_device(self, name: str) -> Path:
        directory = self._devices / component(name) / "data"
        directory.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
        return directory

    # -- existing volumes

    def published(self, uid: PodUID) -> list[PublishedVolume]:
        """Volumes that were published to a pod, or may have been."""
        found = []
        for directory in _directories(self._dirs.of_volumes.all(uid) / _ESCAPED):
            record = _read(directory)
            if record is not None:
                found.append(PublishedVolume(uid, record, str(directory / MOUNT)))
        with suppress(FileNotFoundError):
            for link in (self._dirs.pod(uid) / _DEVICES / _ESCAPED).iterdir():
                record = _read(self._devices / link.name / "data")
                if record is not None:
                    target = self._devices / "publish" / link.name / uid
                    found.append(PublishedVolume(uid, record, str(target), block=True))
        return found

    def staged(self) -> list[StagedVolume]:
        """Volumes that were staged, or may have been."""
        found = []
        for driver in _directories(self._staging):
            if driver.name == _DEVICES:
                continue
            for directory in _directories(driver):
                record = _read(directory)
                if record is not None:
                    found.append(StagedVolume(record.ref, str(directory / _GLOBAL)))
        for directory in _directories(self._devices):
            record = _read(directory / "data")
            if record is not None:
                path = self._devices / "staging" / directory.name
                found.append(StagedVolume(record.ref, str(path), directory.name))
        return found

    def used(self) -> set[VolumeRef]:
        """Persistent volumes that are published to any pod, by the records on disk."""
        return {ref for ref, _ in self.users()}

    def users(self) -> set[tuple[VolumeRef, PodUID]]:
        """Persistent volumes with the pods that they are published to, by the records on disk."""
        every = (each for uid in self._dirs.uids() for each in self.published(uid))
        return {(each.record.ref, each.uid) for each in every if not each.record.ephemeral}

    # -- after the driver has undone the operation

    def forget_published(self, published: PublishedVolume) -> None:
        """Remove directories and record of a publication; both are kept if the target is still mounted."""
        target = Path(published.target)
        if published.block:
            target.unlink(missing_ok=True)
            _remove_empty(target.parent)
            self.device(published.uid, published.record.spec_name).unlink(missing_ok=True)
        elif _clear(target):
            _forget(target.parent)

    def forget_staged(self, staged: StagedVolume) -> None:
        """Remove directories and record of a staged volume. Raises Transient if the path is still mounted."""
        if not _clear(Path(staged.path)):
            raise Transient(f"{staged.path} is still mounted after the driver has unstaged it")
        if staged.block_name:
            directory = self._devices / staged.block_name
            _forget(directory / "data")
            _remove_empty(directory)
        else:
            _forget(Path(staged.path).parent)


def _directories(path: Path) -> Iterator[Path]:
    with suppress(FileNotFoundError, NotADirectoryError):
        for child in sorted(path.iterdir()):
            if child.is_dir() and not child.is_symlink():
                yield child


def _write(directory: Path, fields: Mapping[str, str]) -> None:
    data = msgspec.json.encode(fields) + b"\n"
    path = directory / _RECORD
    with suppress(OSError):
        if read_regular(path, _MAX_FILE) == data:
            return
    clear_path(path)
    write_atomic(path, data, _FILE_MODE)


def _read(directory: Path) -> Record | None:
    """Read the record in a directory; None if it is missing or invalid. An invalid record is logged.

    Transient: it cannot be read for now, so the volume may be in use.
    """
    path = directory / _RECORD
    try:
        fields = convert(read_json(read_regular(path, _MAX_FILE)), dict[str, str])
        ref = VolumeRef(fields["driverName"], fields["volumeHandle"])
    except FileNotFoundError:
        return None
    except (OSError, Invalid, msgspec.ValidationError, KeyError) as error:
        raise_passing(error, str(path))
        _log.error("volume record invalid: ignored", extra={"path": path, "error": repr(error)})
        return None
    return Record(
        spec_name=fields.get("specVolID", directory.name),
        ref=ref,
        node=fields.get("nodeName", ""),
        ephemeral=fields.get("volumeLifecycleMode") == _EPHEMERAL,
    )


def _clear(target: Path) -> bool:
    """Remove the empty target directory, if the driver has not done it; return False if it is still mounted."""
    if is_mount_point(target):
        _log.error("volume still mounted after the driver has unmounted it", extra={"path": target})
        return False
    with suppress(FileNotFoundError):
        target.rmdir()
    return True


def _forget(directory: Path) -> None:
    (directory / _RECORD).unlink(missing_ok=True)
    _remove_empty(directory)


def _remove_empty(directory: Path) -> None:
    with suppress(OSError):
        directory.rmdir()

"""Values of log rotation."""

from dataclasses import dataclass
from pathlib import Path

from pykubelet.base.units import Bytes, Seconds
from pykubelet.kubelet.types.ids import PodUID


@dataclass(frozen=True, slots=True)
class RotationConfig:
    """The configuration's part. `max_size` below zero turns rotation off."""

    root: Path
    """Directory of all pods' logs."""
    max_size: Bytes = Bytes(10 * 1024 * 1024)
    max_files: int = 5
    """Of one container, the one being written included; at least 2."""
    workers: int = 1
    interval: Seconds = 10.0


@dataclass(frozen=True, slots=True)
class LogPlace:
    """The log of one start of a container, in the directory ``root/pod/container``."""

    root: Path
    pod: str
    """The name of the pod's directory."""
    uid: PodUID
    container: str
    attempt: int

    @property
    def name(self) -> str:
        """The file that is written to."""
        return f"{self.attempt}.log"

    @property
    def path(self) -> str:
        """For messages only: what is there may be changed by a pod at any moment."""
        return f"{self.root}/{self.pod}/{self.container}/{self.name}"


@dataclass(frozen=True, slots=True)
class Tidying:
    """What has to happen to older files before the newest is rotated; names within the directory."""

    remove: tuple[str, ...] = ()
    compress: tuple[str, ...] = ()

"""Values of log rotation."""

from pathlib import Path

from msgspec import Struct

from pykubelet.base.units import Bytes, Seconds
from pykubelet.kubelet.types.ids import PodUID


class RotationConfig(Struct, frozen=True):
    """Configuration of log rotation. A `max_size` (bytes) below zero turns it off."""

    root: Path
    """Directory of all pod log directories."""
    max_size: Bytes = Bytes(10 * 1024 * 1024)
    max_files: int = 5
    """Maximum number of log files per container, with the current one; at least 2."""
    workers: int = 1
    interval: Seconds = 10.0


class LogPlace(Struct, frozen=True):
    """Log of one attempt of a container, in the directory ``root/pod/container``."""

    root: Path
    pod: str
    """Name of the pod's log directory."""
    uid: PodUID
    container: str
    attempt: int | None
    """None: there is no log of any attempt, since none has run or someone has deleted them."""

    @property
    def name(self) -> str:
        """File name of the current log; empty without one."""
        return f"{self.attempt}.log" if self.attempt is not None else ""

    @property
    def path(self) -> str:
        """Path for messages only: a pod may change what is there at any moment."""
        return f"{self.root}/{self.pod}/{self.container}/{self.name}"


class RotatedFiles(Struct, frozen=True):
    """Rotated files to remove and to compress before the log is rotated; names within the directory."""

    remove: tuple[str, ...] = ()
    compress: tuple[str, ...] = ()

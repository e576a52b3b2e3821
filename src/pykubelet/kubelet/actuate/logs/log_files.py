"""File operations of log rotation. All functions block; callers run them in a thread.

A pod with a writable hostPath may have put anything into these directories: links, FIFOs, devices, files with holes.
So each directory is opened by descriptor from the root of the logs down, never through a link, files are named relative
to it, and only regular files are read.
"""

import errno
import gzip
import os
import stat
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

from pykubelet.base.errors import Invalid
from pykubelet.base.files.safe_path import directory_at, directory_in_root, open_regular_at
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.cri_messages.names import uid_of_log_dir
from pykubelet.kubelet.actuate.logs.log_types import LogPlace, RotationConfig
from pykubelet.kubelet.actuate.logs.plan import log_names

_MODE: Final = 0o666
"""Permission bits of a log that its compressed file keeps."""
_BLOCK: Final = 1 << 18
_MOST_NAMES: Final = 4096
_COMPRESS_SECONDS: Final[Seconds] = 90.0
"""Time limit for one file: enough for gigabytes of log, but not for a huge hole."""


def pods(root: Path) -> list[str]:
    """List the names of the pods' log directories. Raises OSError."""
    with suppress(FileNotFoundError), directory_in_root(root) as top:
        return [name for name in _directories(top) if name.count("_") >= 2]
    return []


def overgrown(config: RotationConfig, pod: str) -> tuple[list[LogPlace], dict[str, OSError]]:
    """Return the logs of a pod to rotate: too large, or missing, by an interrupted rotation or as they were deleted.

    The second value has the containers whose directories cannot be read. Raises OSError if the pod's cannot be read.
    """
    with suppress(FileNotFoundError), directory_in_root(config.root) as top:
        return _overgrown_in(config, top, pod)
    return [], {}


def _overgrown_in(config: RotationConfig, top: int, pod: str) -> tuple[list[LogPlace], dict[str, OSError]]:
    places: list[LogPlace] = []
    failed: dict[str, OSError] = {}
    with suppress(FileNotFoundError, NotADirectoryError), directory_at(top, pod) as directory:
        for container in _directories(directory):
            try:
                place = _overgrown(config, directory, pod, container)
            except OSError as error:
                failed[container] = error
                continue
            if place is not None:
                places.append(place)
    return places, failed


def worth_a_look(config: RotationConfig, pods: Sequence[str]) -> list[str]:
    """Return the pods that have logs to rotate, or directories that cannot be read."""
    with suppress(FileNotFoundError), directory_in_root(config.root) as top:
        return [pod for pod in pods if _is_worth_a_look(config, top, pod)]
    return []


def _is_worth_a_look(config: RotationConfig, top: int, pod: str) -> bool:
    try:
        return _overgrown_in(config, top, pod) != ([], {})
    except Exception:  # the error is reported when the pod is checked alone
        return True


def _overgrown(config: RotationConfig, above: int, pod: str, container: str) -> LogPlace | None:
    with suppress(FileNotFoundError, NotADirectoryError), directory_at(above, container) as directory:
        names = _names(directory)
        place = LogPlace(config.root, pod, uid_of_log_dir(pod), container, log_names.current_attempt(names))
        if place.attempt is None or _is_due(directory, names, place.name, config.max_size):
            return place
    return None


def tidy(place: LogPlace, max_files: int) -> None:
    """Remove the oldest rotated files and compress the others. Raises OSError, Invalid."""
    with _opened(place) as directory:
        plan = log_names.tidying(_names(directory), place.name, max_files)
        for name in plan.remove:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory)
        for name in plan.compress:
            _compress(directory, name)


def put_aside(place: LogPlace, now: datetime) -> str | None:
    """Rename the log to the next rotated name; return that name, None if there is no log. Raises OSError.

    An existing file is overwritten only if a pod itself creates files with names of logs.
    """
    with _opened(place) as directory:
        with os.scandir(directory) as entries:
            rotated = log_names.next_name((entry.name for entry in entries), place.name, now)
        try:
            os.rename(place.name, rotated, src_dir_fd=directory, dst_dir_fd=directory)
        except FileNotFoundError:
            return None
    return rotated


def put_back(place: LogPlace, rotated: str) -> None:
    """Undo `put_aside`, unless there is a new log already. Raises OSError."""
    with _opened(place) as directory, suppress(FileExistsError):
        os.link(rotated, place.name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
        os.unlink(rotated, dir_fd=directory)


def _opened(place: LogPlace) -> AbstractContextManager[int]:
    return directory_in_root(place.root, place.pod, place.container)


def _names(directory: int) -> list[str]:
    """List the log files in a directory, at most ``_MOST_NAMES``, more than rotation ever leaves."""
    with os.scandir(directory) as entries:
        logs = (e.name for e in entries if log_names.is_log(e.name) and not e.is_dir(follow_symlinks=False))
        return list(islice(logs, _MOST_NAMES))


def _directories(directory: int) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def _is_due(directory: int, names: list[str], name: str, max_size: int) -> bool:
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return log_names.is_lost(names, name)
    return stat.S_ISREG(found.st_mode) and found.st_size >= max_size


def _compress(directory: int, name: str) -> None:
    """Replace a rotated file by its compressed form; if it is not a regular file, remove it."""
    try:
        source = os.fdopen(open_regular_at(directory, name), "rb")
    except Invalid:
        os.unlink(name, dir_fd=directory)
        return
    temporary = f"{name}{log_names.TEMPORARY}"
    new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with source:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)
        try:
            with os.fdopen(os.open(temporary, new, 0o600, dir_fd=directory), "wb") as target:
                os.fchmod(target.fileno(), stat.S_IMODE(os.fstat(source.fileno()).st_mode) & _MODE)
                with gzip.GzipFile(filename="", fileobj=target, mode="wb") as packed:
                    _copy(source, packed)
            packed_name = f"{name}{log_names.COMPRESSED}"
            os.rename(temporary, packed_name, src_dir_fd=directory, dst_dir_fd=directory)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=directory)
    os.unlink(name, dir_fd=directory)


def _copy(source: BinaryIO, target: gzip.GzipFile) -> None:
    """Copy the file's current content. Raises OSError on timeout, as for a file that is one huge hole."""
    left, until = os.fstat(source.fileno()).st_size, time.monotonic() + _COMPRESS_SECONDS
    while left > 0 and (data := source.read(min(_BLOCK, left))):
        target.write(data)
        left -= len(data)
        if time.monotonic() > until:
            raise TimeoutError(errno.ETIMEDOUT, f"compressing a rotated log took longer than {_COMPRESS_SECONDS:g} s")

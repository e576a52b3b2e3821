"""Log rotation on the disk. Everything here blocks; callers run it in a thread."""

import gzip
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pykubelet.kubelet.actuate.criconfig.names import uid_of_log_dir
from pykubelet.kubelet.actuate.logs import decide
from pykubelet.kubelet.actuate.logs.types import LogPlace, RotationConfig


def overgrown(config: RotationConfig) -> list[LogPlace]:
    """The logs that are due: too large, or left without a file by an interrupted rotation."""
    return [place for place in _places(config.root) if _is_due(place, config)]


def tidy(place: LogPlace, max_files: int) -> None:
    """Remove the oldest files and compress what readers have had time to finish. Raises OSError."""
    plan = decide.tidying(_names(place.folder), place.name, max_files)
    for name in plan.remove:
        (place.folder / name).unlink(missing_ok=True)
    for name in plan.compress:
        _compress(place.folder / name)


def put_aside(place: LogPlace, stamp: str) -> Path | None:
    """Give the log a rotated name; None if it is not there, or that name is taken. Raises OSError."""
    rotated = place.folder / f"{place.name}.{stamp}"
    if rotated.exists():
        return None
    try:
        (place.folder / place.name).rename(rotated)
    except FileNotFoundError:
        return None
    return rotated


def put_back(place: LogPlace, rotated: Path) -> None:
    """Undo `put_aside`, unless there is a new log already. Raises OSError."""
    with suppress(FileExistsError):
        os.link(rotated, place.folder / place.name)
        rotated.unlink()


def _places(root: Path) -> Iterator[LogPlace]:
    """The last log of every container. What is not as we make it is passed over."""
    for pod in _folders(root):
        if pod.name.count("_") >= 2:
            for container in _folders(pod.path):
                names = _names(container.path)
                attempt = decide.current_attempt(names)
                if attempt is not None:
                    yield LogPlace(uid_of_log_dir(pod.name), container.name, attempt, Path(container.path))


def _names(path: str | Path) -> list[str]:
    """What is in a folder that may go at any moment."""
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries]
    except FileNotFoundError:
        return []


def _folders(path: str | Path) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(path) as entries:
            return [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_due(place: LogPlace, config: RotationConfig) -> bool:
    try:
        found = (place.folder / place.name).lstat()
    except FileNotFoundError:
        return decide.is_lost(_names(place.folder), place.name)
    return stat.S_ISREG(found.st_mode) and found.st_size >= config.max_size


def _compress(path: Path) -> None:
    temporary = path.with_name(f"{path.name}{decide.TEMPORARY}")
    mode = stat.S_IMODE(path.lstat().st_mode)
    try:
        target = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        with path.open("rb") as source, os.fdopen(target, "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb") as packed:
            shutil.copyfileobj(source, packed, 1 << 18)
        temporary.rename(path.with_name(f"{path.name}{decide.COMPRESSED}"))
    finally:
        temporary.unlink(missing_ok=True)
    path.unlink()

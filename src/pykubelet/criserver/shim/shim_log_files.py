"""Bounds the logs of shims themselves: the file ``log`` in the directory of each task.

The shim holds the file open and may write to it as long as it lives, also while no server runs. So a file that takes
too much space is emptied in place, and its end is kept beside it. Its size then still counts what was there, as a hole.
"""

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.files.atomic import write_atomic
from pykubelet.base.files.safe_path import open_regular_at
from pykubelet.base.units import KIB, MIB, Bytes, Seconds

_log = logging.getLogger(__name__)
_NAME: Final = "log"
_PREVIOUS: Final = "log.previous"
_OWNER: Final = "shim-logs"
CHECK_SECONDS: Final[Seconds] = 30.0
LARGEST: Final = Bytes(4 * MIB)
"""Space on the disk, or in memory, that one log may take."""
KEPT: Final = 64 * KIB
"""Bytes of its end that are kept when it is emptied."""
_BLOCK: Final = 512


class ShimLogFiles:
    """The logs of all shims of a server."""

    def __init__(self, directories: Callable[[], Sequence[Path]], clock: Clock) -> None:
        """``directories``: returns those of the handlers that run shims, which have those of tasks."""
        self._directories = directories
        self._clock = clock
        self._tasks = Guard("shims.logs", clock.monotonic)
        self._rounds = Guard("shims.log-rounds", clock.monotonic)

    async def run(self) -> None:
        """Look at all logs periodically, until cancelled."""
        while True:
            await self._clock.sleep(CHECK_SECONDS)
            with self._rounds.item("logs"):
                await self.check()

    async def check(self) -> None:
        """Empty the logs that take too much space."""
        handlers = self._directories()
        found = await blocking.call(_OWNER, self._found, handlers) if handlers else []
        for task in self._tasks.due(found):
            with self._tasks.item(str(task)):
                if await blocking.call(_OWNER, emptied, task):
                    _log.warning("log of a shim emptied: it was too large", extra={"file": str(task / _NAME)})

    def _found(self, handlers: Sequence[Path]) -> list[Path]:
        """Return the directories of the tasks whose logs take too much space."""
        return [Path(task) for handler in handlers for task in _entries(str(handler)) if _is_large(task)]


def _entries(directory: str) -> list[str]:
    # Names are text here: a Path for each task of a node costs ten times as much.
    try:
        return [os.path.join(directory, name) for name in os.listdir(directory)]  # noqa: PTH118, PTH208
    except OSError:  # it was removed, or is a file
        return []


def _is_large(task: str) -> bool:
    """Whether the log of a task takes too much space; False without one."""
    try:
        return _takes_too_much(os.lstat(f"{task}/{_NAME}"))
    except OSError:
        return False


def _takes_too_much(found: os.stat_result) -> bool:
    return found.st_blocks * _BLOCK > LARGEST


def emptied(task: Path) -> bool:
    """Empty the log of a task if it takes too much space; whether it did. Blocking. Errors: of ``open_regular_at``."""
    try:
        directory = os.open(task, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fd = open_regular_at(directory, _NAME, os.O_RDWR)
    except FileNotFoundError:
        return False
    finally:
        os.close(directory)
    try:
        found = os.fstat(fd)
        if not _takes_too_much(found):
            return False
        end = os.pread(fd, KEPT, max(0, found.st_size - KEPT))
        # First: what follows may fail without a loss that matters.
        os.ftruncate(fd, 0)
        write_atomic(task / _PREVIOUS, end)
        return True
    finally:
        os.close(fd)

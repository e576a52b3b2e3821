"""Periodic release of memory that the start of a daemon or a burst of work no longer needs."""

import gc
import linecache
import logging
import sys
from collections.abc import Callable

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.linux import memory

_log = logging.getLogger(__name__)

FIRST_SECONDS = 5.0
EVERY_SECONDS = 60.0


def release_memory() -> None:
    """Return free heap and unused code pages to the kernel; takes some milliseconds without the interpreter lock."""
    _forget_imports()
    memory.trim()
    try:
        memory.drop_code_pages()
    except OSError as error:
        _log.debug("cannot drop code pages", extra={"error": str(error)})


def _forget_imports() -> None:
    """Drop what earlier imports leave behind, 0.3 MiB; the next import makes the part again that it needs."""
    sys.path_importer_cache.clear()  # the names of all files beside each module
    linecache.clearcache()  # the code that attrs has generated


async def trim_periodically(clock: Clock, work: Callable[[], None] = release_memory) -> None:
    """Release memory soon after the start, which leaves most of it, and then every minute, until cancelled.

    Objects created until the first release stay for good, so they are excluded from garbage collection (gc.freeze). The
    collector itself is not run here: that would stop the event loop for a tenth of a second.
    """
    await clock.sleep(FIRST_SECONDS)
    await blocking.call("upkeep", work)
    gc.freeze()
    while True:
        await clock.sleep(EVERY_SECONDS)
        await blocking.call("upkeep", work)

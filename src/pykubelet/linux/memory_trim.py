"""Periodic release of memory that the start of a daemon or a burst of work no longer needs."""

import gc
import linecache
import logging
import sys
from collections.abc import Callable

from pykubelet.base.clock import Clock, cpu_time
from pykubelet.base.concurrency import blocking
from pykubelet.base.units import Seconds
from pykubelet.linux import memory

_log = logging.getLogger(__name__)

FIRST_SECONDS = 5.0
EVERY_SECONDS = 60.0
WORTH: Seconds = 0.1
"""CPU time after which there is something to release. A daemon without work uses less in a minute; each release costs
some milliseconds more, for the call and for the page faults of the code that runs on."""


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


async def trim_periodically(
    clock: Clock, work: Callable[[], None] = release_memory, cpu: Callable[[], Seconds] = cpu_time
) -> None:
    """Release memory soon after the start, which leaves most of it, and then every minute, until cancelled.

    A minute is left out if the process has used less than ``WORTH`` seconds of CPU time (``cpu``) since the last one.
    Objects created until the first release stay for good, so they are excluded from garbage collection (gc.freeze). The
    collector itself is not run here: that would stop the event loop for a tenth of a second.
    """
    await clock.sleep(FIRST_SECONDS)
    await blocking.call("upkeep", work)
    gc.freeze()
    while True:
        released = cpu()
        while cpu() - released < WORTH:
            await clock.sleep(EVERY_SECONDS)
        await blocking.call("upkeep", work)

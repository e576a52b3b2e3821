"""Keeps a daemon small: now and then it gives back the memory that a start or a burst of work has left behind."""

import gc
import logging
from collections.abc import Callable

from pykubelet.base import blocking
from pykubelet.base.clock import Clock
from pykubelet.linux import memory

_log = logging.getLogger(__name__)

FIRST_SECONDS = 5.0
EVERY_SECONDS = 60.0


def release_memory() -> None:
    """Give back free heap and code that is not run; some milliseconds, in which the interpreter goes on."""
    memory.trim()
    try:
        memory.drop_code_pages()
    except OSError as error:
        _log.debug("code not forgotten", extra={"error": str(error)})


async def trim_periodically(clock: Clock, work: Callable[[], None] = release_memory) -> None:
    """Until cancelled: soon after the start, which is what leaves most behind, and then every minute.

    What was made until then stays for good, so the garbage collector need not look at it again and again. It is not run
    here: that would hold up everything for a tenth of a second.
    """
    await clock.sleep(FIRST_SECONDS)
    await blocking.call("upkeep", work)
    gc.freeze()
    while True:
        await clock.sleep(EVERY_SECONDS)
        await blocking.call("upkeep", work)

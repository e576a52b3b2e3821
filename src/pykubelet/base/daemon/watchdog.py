"""Keeps systemd's watchdog quiet while a daemon works (``WatchdogSec=`` of its unit).

A daemon that hangs, or whose checks fail, is killed with SIGABRT and started again; its log then has the stacks of its
threads. The pods keep running.
"""

import faulthandler
import logging
from collections.abc import Callable
from typing import Final

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.daemon.notify import Notifier
from pykubelet.base.errors import Transient
from pykubelet.base.units import Seconds

_log = logging.getLogger(__name__)
_RETRY: Final[Seconds] = 1.0
_CHECKS: Final = 4
"""Checks within the timeout: one that fails for a moment, or comes late, does not kill a daemon that works."""


class Watchdog:
    """Tells systemd several times within the watchdog's timeout that the daemon works, if it does."""

    def __init__(self, notifier: Notifier, fault: Callable[[], str | None] | None = None, *, clock: Clock) -> None:
        """``fault`` returns why the daemon does not work, or None; without it, the daemon works if its event loop runs,
        in which this is called."""
        self._notifier = notifier
        self._fault = fault
        self._clock = clock
        self._guard = Guard("watchdog", clock.monotonic)
        self._last: str | None = None

    async def run(self) -> None:
        """Tell systemd until cancelled; return at once if the watchdog is off."""
        if not self._notifier.watchdog:
            return
        if not faulthandler.is_enabled():
            faulthandler.enable()
        _log.info("watchdog: enabled", extra={"timeout_s": self._notifier.watchdog})
        while True:
            with self._guard.item("check"):
                await self._check()
            await self._clock.sleep(self._notifier.watchdog / _CHECKS)

    async def _check(self) -> None:
        """Do one check. Raises Transient if systemd cannot be told, after two attempts."""
        before, self._last = self._last, self._fault() if self._fault is not None else None
        if self._last is not None:
            _log.error("watchdog not notified: the daemon is not healthy", extra={"error": self._last})
            self._notifier.status(f"Not healthy: {self._last}")
            return
        if before is not None:
            self._notifier.status("Serving")
        if self._notifier.alive():
            return
        await self._clock.sleep(_RETRY)
        if not self._notifier.alive():
            raise Transient("failed to notify the systemd watchdog")

"""Tells systemd how far a daemon is (sd_notify(3)), if its unit has ``Type=notify``; does nothing elsewhere."""

import logging
import os
import socket
from collections.abc import Mapping
from typing import Final, Self

from pykubelet.base.errors import Invalid
from pykubelet.base.text import printable
from pykubelet.base.units import Seconds

_log = logging.getLogger(__name__)
_SHORTEST: Final[Seconds] = 1.0
_MICROSECOND: Final[Seconds] = 1e-6
_VARIABLES: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


class Notifier:
    """The service manager's notification socket."""

    def __init__(self, address: str, watchdog: Seconds = 0.0) -> None:
        """``address``: the path of the socket, or ``@NAME`` for an abstract one; empty: there is no manager."""
        self._address = address
        self._ready = False
        self._serving = "Serving"
        self.watchdog: Final = watchdog
        """Time after which systemd kills the daemon unless it calls `alive`; 0: it does not."""

    @classmethod
    def from_environment(cls) -> Self:
        """Take the socket and the watchdog out of the environment, where OCI runtimes would find the socket and pass it
        on to containers.

        Raises Invalid for a watchdog that is no number, or not longer than a second.
        """
        given = {name: value for name in _VARIABLES if (value := os.environ.pop(name, ""))}
        return cls(given.get("NOTIFY_SOCKET", ""), watchdog_timeout(given, os.getpid()))

    def ready(self) -> None:
        """Tell that the daemon serves requests. Call it once."""
        self._ready = True
        self._tell(f"READY=1\nSTATUS={printable(self._serving)}")

    def reloading(self, monotonic: Seconds) -> None:
        """Tell that the daemon begins to reload its configuration, at this time of the monotonic clock.

        A reload before `ready` is part of the start.
        """
        if self._ready:
            microseconds = int(monotonic / _MICROSECOND)
            self._tell(f"RELOADING=1\nMONOTONIC_USEC={microseconds}\nSTATUS=Reloading the configuration")

    def reloaded(self, status: str) -> None:
        """Tell that the reload is done; ``status``: the line to show from now on, or from `ready` on."""
        self._serving = status
        if self._ready:
            self._tell(f"READY=1\nSTATUS={printable(status)}")

    def stopping(self) -> None:
        """Tell that the daemon begins to shut down."""
        self._tell("STOPPING=1\nSTATUS=Stopping; containers keep running")

    def alive(self) -> bool:
        """Tell the watchdog that the daemon works. Returns whether systemd has been told."""
        return self._tell("WATCHDOG=1")

    def status(self, text: str) -> None:
        """Show a line in ``systemctl status``."""
        self._tell(f"STATUS={printable(text)}")

    def _tell(self, state: str) -> bool:
        if not self._address:
            return False
        path = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(
                socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
            ) as sender:
                sender.sendto(state.encode(), path)
        except OSError as error:
            _log.warning("service manager not notified", extra={"state": state, "error": str(error)})
            return False
        return True


def watchdog_timeout(environment: Mapping[str, str], pid: int) -> Seconds:
    """Return the watchdog's timeout in an environment, for the process ``pid``; 0: it is off, or for another process.

    Raises Invalid if it is no positive number of microseconds, or not longer than a second, as the Go kubelet does.

    Source: sd_watchdog_enabled(3).
    """
    text, owner = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not text:
        return 0.0
    for name, value in (("WATCHDOG_USEC", text), ("WATCHDOG_PID", owner or "1")):
        if not (value.isascii() and value.isdecimal() and int(value) > 0):
            raise Invalid(f"configure watchdog: {name} is {value!r}, which is no positive number; systemd sets it")
    if owner and int(owner) != pid:
        return 0.0
    seconds = int(text) * _MICROSECOND
    if seconds <= _SHORTEST:
        raise Invalid(
            f"configure watchdog timeout too small: {_go_duration(int(text))}; set WatchdogSec of the unit to more "
            f"than {_SHORTEST:g} s, or to 0"
        )
    return seconds


def _go_duration(microseconds: int) -> str:
    for size, unit in ((1_000_000, "s"), (1000, "ms")):
        if microseconds >= size:
            return f"{microseconds / size:g}{unit}"
    return f"{microseconds}µs"

"""Tells systemd how far a daemon is (sd_notify(3)), if its unit has ``Type=notify``; does nothing elsewhere."""

import logging
import os
import socket
from typing import Self

_log = logging.getLogger(__name__)


class Notifier:
    """The service manager's notification socket."""

    def __init__(self, address: str) -> None:
        """``address``: the path of the socket, or ``@NAME`` for an abstract one; empty: there is no manager."""
        self._address = address

    @classmethod
    def from_environment(cls) -> Self:
        """Take the address out of the environment, where OCI runtimes would find it and pass it on to containers."""
        return cls(os.environ.pop("NOTIFY_SOCKET", ""))

    def ready(self) -> None:
        """Tell that the daemon serves requests."""
        self._tell("READY=1")

    def stopping(self) -> None:
        """Tell that the daemon begins to shut down."""
        self._tell("STOPPING=1")

    def _tell(self, state: str) -> None:
        if not self._address:
            return
        path = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(
                socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
            ) as sender:
                sender.sendto(state.encode(), path)
        except OSError as error:
            _log.warning("service manager not notified", extra={"state": state, "error": str(error)})

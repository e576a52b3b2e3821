"""Interfaces that the CSI package uses, besides `CsiObjects` in ``volumes/interfaces.py``."""

from typing import Protocol

from pykubelet.kubelet.types.storage import DriverNodeInfo


class DriverReports(Protocol):
    """Reports the drivers of the node to the cluster. Calls return at once and never fail; reports are retried."""

    def installed(self, driver: str, info: DriverNodeInfo) -> None:
        """Report a driver that has registered."""

    def removed(self, driver: str) -> None:
        """Report a driver that has unregistered."""

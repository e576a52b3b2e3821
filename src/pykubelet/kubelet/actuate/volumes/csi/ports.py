"""What the CSI part needs of others, beside `CsiObjects`, which is in the volume manager's ports."""

from typing import Protocol

from pykubelet.kubelet.types.storage import DriverNodeInfo


class DriverReports(Protocol):
    """Tells the cluster which drivers the node has, as soon as it can. Never fails, returns at once."""

    def installed(self, driver: str, info: DriverNodeInfo) -> None:
        """A driver is there."""

    def removed(self, driver: str) -> None:
        """A driver has gone."""

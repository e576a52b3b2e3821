"""What the node reporter needs of others."""

from typing import Protocol

from pykubelet.kubelet.report.node.types import NodeFacts


class NodeFactsReader(Protocol):
    """Reads the node's state; put together in ``kubelet/compose/cluster.py``."""

    async def read(self) -> NodeFacts:
        """The node now. Never raises for what is merely not well: that is a fault of the node."""

    def architecture(self) -> str:
        """The machine's, by its name in Kubernetes."""


class Startup(Protocol):
    """Measures how a new node came up (``report/metrics``). Only the first of each call counts."""

    def registering(self) -> None:
        """The node is about to be registered."""

    def registered(self) -> None:
        """A node that was not there before was registered."""

    def ready(self) -> None:
        """The API server has been told that the node is ready."""


class NoStartup:
    """Measures nothing."""

    def registering(self) -> None: ...

    def registered(self) -> None: ...

    def ready(self) -> None: ...

"""Builds the Node object of a node that is in no cluster, with the rules of one that is."""

from msgspec.structs import replace

from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds
from pykubelet.kubelet.compose.node.node_status import NodeStatusReader
from pykubelet.kubelet.report.node import NodeConfig, new_node, node_status
from pykubelet.models.core_v1 import Node, NodeStatus
from pykubelet.models.scalars import time_from_unix


class NodeBuilder:
    """Builds Node objects; keeps the last status, which tells since when conditions hold."""

    def __init__(self, *, name: str, reader: NodeStatusReader, clock: Clock, began: Seconds) -> None:
        """``began`` is the Unix time at which the agent started: the creation time of the object."""
        self._config = NodeConfig(name=name)
        self._reader = reader
        self._clock = clock
        self._began = began
        self._last = NodeStatus()

    async def build(self) -> Node:
        """Return the Node object as it is now."""
        facts = await self._reader.read()
        self._last = node_status(facts, self._last, self._config, self._clock.now())
        node = new_node(self._config, self._last, self._reader.architecture())
        return replace(node, metadata=replace(node.metadata, creation_timestamp=time_from_unix(self._began)))

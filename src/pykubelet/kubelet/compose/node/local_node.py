"""The Node object that the local API shows: the API server's, or on a node without a cluster one made on request."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.kubelet.compose.node.node_status import NodeStatusReader
from pykubelet.models.core_v1 import Node

if TYPE_CHECKING:
    from pykubelet.kubelet.compose.node.local_node_builder import NodeBuilder


class LocalNode:
    """Returns the Node object. What builds it is imported at the first request: most agents never get one."""

    def __init__(
        self, *, name: str, registered: Callable[[], Node | None], reader: NodeStatusReader, clock: Clock
    ) -> None:
        """``registered`` returns the node as the API server has it, None without one."""
        self._name = name
        self._registered = registered
        self._reader = reader
        self._clock = clock
        self._began = clock.now()
        self._builder: NodeBuilder | None = None

    async def read(self) -> Node:
        """Return the Node object as it is now."""
        registered = self._registered()
        if registered is not None:
            return registered
        if self._builder is None:
            self._builder = await blocking.call("node", self._new_builder)
        return await self._builder.build()

    def _new_builder(self) -> "NodeBuilder":
        from pykubelet.kubelet.compose.node.local_node_builder import NodeBuilder

        return NodeBuilder(name=self._name, reader=self._reader, clock=self._clock, began=self._began)

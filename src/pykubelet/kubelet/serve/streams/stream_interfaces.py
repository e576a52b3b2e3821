"""The interface of the runtime's streaming server."""

from collections.abc import Sequence
from typing import Protocol

from pykubelet.kubelet.serve.streams.stream_types import StreamOptions
from pykubelet.kubelet.types.ids import ContainerID, PodUID


class Streams(Protocol):
    """The runtime's streaming server. All methods raise the errors of ``base.errors``."""

    async def exec_url(self, container: ContainerID, options: StreamOptions) -> str:
        """Return a one-time URL that runs the command when a client connects."""

    async def attach_url(self, container: ContainerID, options: StreamOptions) -> str:
        """Return a one-time URL that attaches to the container's first process."""

    async def port_forward_url(self, uid: PodUID, ports: Sequence[int]) -> str:
        """Return a one-time URL that forwards to ports of the pod. NotFound: the pod has no running sandbox.

        ``ports`` is for clients whose protocol cannot name ports.
        """

"""The pod network with measurements of its operations."""

from collections.abc import Callable, Iterable

from pykubelet.criserver.cni import AttachRequest, PodAddresses
from pykubelet.criserver.metrics.server_metrics import SET_UP, TEAR_DOWN, ServerMetrics
from pykubelet.criserver.sandbox.sandbox_interfaces import PodNetwork
from pykubelet.criserver.types import SandboxID


class MeasuredNetwork:
    """A ``PodNetwork`` that records the operations of another one."""

    def __init__(self, *, network: PodNetwork, metrics: ServerMetrics) -> None:
        self._network = network
        self._metrics = metrics

    async def attach(self, request: AttachRequest) -> PodAddresses:
        """Attach a network namespace; it gets addresses."""
        with self._metrics.network(SET_UP):
            return await self._network.attach(request)

    async def detach(self, sandbox: SandboxID, known: AttachRequest | None = None) -> None:
        """Detach and release the addresses."""
        with self._metrics.network(TEAR_DOWN):
            await self._network.detach(sandbox, known)

    async def check(self, sandbox: SandboxID) -> None:
        """Check that it is still attached."""
        await self._network.check(sandbox)

    def held(self) -> list[SandboxID]:
        """The sandboxes that still have an attachment."""
        return self._network.held()

    async def collect_garbage(self, used: Callable[[], Iterable[SandboxID] | None]) -> None:
        """Have addresses released that no sandbox uses, for ever."""
        await self._network.collect_garbage(used)

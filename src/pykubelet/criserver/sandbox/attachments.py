"""The attachments of sandboxes to the pod network, and later retries of releases that failed."""

import asyncio
from collections.abc import Mapping

from pykubelet.base.backoff import Backoff
from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.errors import PykubeletError
from pykubelet.criserver.cni import AttachRequest, HandlerNetworks
from pykubelet.criserver.netns import NamespaceKind
from pykubelet.criserver.sandbox.layout import SandboxLayout
from pykubelet.criserver.sandbox.plan.requests import attach_request, own_network
from pykubelet.criserver.sandbox.sandbox_interfaces import PodNetwork
from pykubelet.criserver.sandbox.state.sandbox_state import Sandbox
from pykubelet.criserver.sandbox.state.table import SandboxTable
from pykubelet.criserver.types import ProtectedIds, SandboxID, SandboxPhase


class Attachments:
    """The network attachments of sandboxes, and the addresses that belong to none any more."""

    def __init__(
        self,
        *,
        network: PodNetwork,
        layout: SandboxLayout,
        table: SandboxTable,
        clock: Clock,
        handler_networks: Mapping[str, HandlerNetworks] | None = None,
    ) -> None:
        """``handler_networks``: those of the runtime handlers that have their own."""
        self._handler_networks = handler_networks or {}
        self._network = network
        self._layout = layout
        self._table = table
        self._clock = clock
        self._protected = ProtectedIds()
        self._leftovers = asyncio.Event()

    async def attach(self, sandbox: Sandbox) -> tuple[str, ...]:
        """Attach a sandbox and return its addresses; none if it uses the node's network. Transient, Permanent."""
        if not own_network(sandbox.config):
            return ()
        return (await self._network.attach(self._request(sandbox))).ips

    async def detach(self, sandbox: Sandbox) -> None:
        """Detach a sandbox and release its addresses. Idempotent; on an error, retry or call ``retry_later``."""
        await self._network.detach(sandbox.id, self._request(sandbox) if sandbox.record.ips else None)

    async def problem(self, sandbox: Sandbox) -> str:
        """The problem that CNI CHECK reports for an attachment; empty: none, or the sandbox is not attached."""
        if not sandbox.ready or not own_network(sandbox.config):
            return ""
        try:
            await self._network.check(sandbox.id)
        except PykubeletError as error:
            return str(error)
        return ""

    def complete(self, sandbox: Sandbox) -> bool:
        """Whether the sandbox holds the attachment that it needs."""
        return not own_network(sandbox.config) or sandbox.id in self._network.held()

    def protect(self, ids: ProtectedIds) -> None:
        """Keep the addresses of these sandboxes, though the table does not know them."""
        self._protected = ids

    def retry_later(self) -> None:
        """Make ``release_leftovers`` look for addresses that could not be released."""
        self._leftovers.set()

    async def release_leftovers(self) -> None:
        """Release addresses of removed or stopped sandboxes whose release failed; runs until cancelled."""
        backoff = Backoff(1.0, 60.0, factor=2.0, reset_after=300.0, jitter=0.1)
        guard = Guard("sandboxes.addresses", self._clock.monotonic)
        while True:
            await self._leftovers.wait()
            while stale := self._stale():
                for sandbox in stale:
                    with guard.item(sandbox):
                        await self._network.detach(sandbox)
                if self._stale():
                    await self._clock.sleep(backoff.next("network", self._clock.monotonic()))
            self._leftovers.clear()  # not before: after an error of the list the loop is run again
            backoff.reset("network")

    async def collect_garbage(self) -> None:
        """Have addresses released that the network still holds for sandboxes of the past; runs until cancelled."""
        await self._network.collect_garbage(self._used)

    def _used(self) -> list[SandboxID] | None:
        """The sandboxes that must keep their addresses, also protected ones without a record; None: not all are known.

        Protected ids are those of containers, too, which no plugin knows.
        """
        if self._protected.everything:
            return None
        unknown = (SandboxID(each) for each in sorted(self._protected.ids))
        return [
            *(sandbox.id for sandbox in self._table if self._is_used(sandbox.id)),
            *(each for each in unknown if self._table.lookup(each) is None),
        ]

    def _stale(self) -> list[SandboxID]:
        return [each for each in self._network.held() if not self._is_used(each)]

    def _is_used(self, sandbox: SandboxID) -> bool:
        found = self._table.lookup(sandbox)
        if found is None:
            return sandbox in self._protected
        return found.record.phase in (SandboxPhase.MAKING, SandboxPhase.READY)

    def _request(self, sandbox: Sandbox) -> AttachRequest:
        netns = str(self._layout.namespaces.path(sandbox.id, NamespaceKind.NETWORK))
        own = self._handler_networks.get(sandbox.record.handler, HandlerNetworks(""))
        return attach_request(sandbox.id, sandbox.config, netns, conf_dir=own.directory, max_networks=own.most)

"""Has plugins release what no sandbox uses (GC, since CNI 1.1)."""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.concurrency.shared_lock import SharedLock
from pykubelet.base.errors import Invalid
from pykubelet.base.units import Seconds
from pykubelet.criserver.cni.attachment_records import AttachmentRecords
from pykubelet.criserver.cni.network_types import NetworkList
from pykubelet.criserver.cni.plan.network_spec import collection_input, supports_status
from pykubelet.criserver.cni.plugins import Plugins
from pykubelet.criserver.types import MAX_NETWORKS, SandboxID

_EVERY: Seconds = 3600.0
_LOOK_EVERY: Seconds = 5.0
_LIMIT: Seconds = 30.0
"""Time limit of a whole collection: sandboxes that are to be attached or detached wait for it."""
_INTERFACE = "eth0"
"""The interface of an attachment without a record."""


class GarbageCollection:
    """Tells the plugins of the network in use, at first and every hour from then on, which attachments are in use.

    The specification forbids ADD and DEL meanwhile (section "Lifecycle & Ordering"). Plugins release everything that
    is not listed, also what another runtime has attached to the same network.
    """

    def __init__(self, *, plugins: Plugins, records: AttachmentRecords, lock: SharedLock, clock: Clock) -> None:
        """``lock`` is shared by all calls of ADD and DEL."""
        self._plugins = plugins
        self._records = records
        self._lock = lock
        self._clock = clock
        self._guard = Guard("network.collection", clock.monotonic, maximum=_EVERY)
        self._done: dict[str, Seconds] = {}
        """The networks in use whose plugins have collected garbage, and when."""

    async def run(
        self, networks: Callable[[], Sequence[NetworkList]], used: Callable[[], Iterable[SandboxID] | None]
    ) -> None:
        """Collect for ever, on all networks in use.

        ``used`` returns the sandboxes that must keep their addresses even without a record; None if they are not all
        known now, so that nothing may be collected.
        """
        while True:
            with self._guard.item("collection"):
                now = networks()
                names = {network.name for network in now}
                self._done = {name: at for name, at in self._done.items() if name in names}
                for network in now:
                    await self._collect_if_due(network, used)
            await self._clock.sleep(max(_LOOK_EVERY, self._guard.delay("collection")))

    async def _collect_if_due(self, network: NetworkList, used: Callable[[], Iterable[SandboxID] | None]) -> None:
        if not supports_status(network) or network.disable_gc:
            return
        now = self._clock.monotonic()
        if network.name in self._done and now - self._done[network.name] < _EVERY:
            return
        with self._lock.exclusive() as alone:
            known = used()
            if not alone or known is None:
                return
            valid = await blocking.call("network", self._valid, frozenset(known))
            self._done[network.name] = now
            async with asyncio.timeout(_LIMIT):
                await self._collect(network, valid)

    async def _collect(self, network: NetworkList, valid: Iterable[tuple[str, str]]) -> None:
        """Call each plugin; one that fails does not keep the others from it."""
        limit = _LIMIT / len(network.plugins)
        for plugin in network.plugins:
            with self._guard.item(f"plugin {plugin['type']}"):
                await self._plugins.ask("GC", collection_input(network, plugin, valid), limit)

    def _valid(self, known: frozenset[SandboxID]) -> list[tuple[str, str]]:
        """The sandboxes that are, or are about to be, attached, and their interfaces. Blocking."""
        sandboxes = sorted({*known, *self._records.held()})
        return [(sandbox, interface) for sandbox in sandboxes for interface in self._interfaces(sandbox)]

    def _interfaces(self, sandbox: SandboxID) -> Iterable[str]:
        try:
            attachment = self._records.read(sandbox)
        except Invalid:
            # All that it can have: those that it has not are on no network.
            return (f"eth{index}" for index in range(MAX_NETWORKS))
        return [part.request.interface for part in attachment.parts()] if attachment is not None else [_INTERFACE]

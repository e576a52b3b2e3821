"""Registers the node and reports its status.

The status is recomputed every 10 s and whenever :meth:`NodeReporter.poke` is called. It is sent when it has changed,
and every 5 minutes in any case. The heartbeat between two reports is the Lease (``lease.py``).
"""

import asyncio
import logging
import math
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.apiclient import AlreadyExists, ApiClient, Forbidden, PatchKind
from pykubelet.apiclient.resources import NODES
from pykubelet.base.backoff import Backoff
from pykubelet.base.concurrency.callbacks import Callbacks
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.concurrency.wakeup import Wakeup
from pykubelet.base.errors import NotFound
from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.node.node_interfaces import NodeFactsReader, Startup, StorageState
from pykubelet.kubelet.report.node.node_types import NodeConfig, NodeState
from pykubelet.kubelet.report.node.plan.condition_events import (
    REBOOTED,
    SCHEDULABLE,
    condition_events,
    reboot_message,
    status_message,
)
from pykubelet.kubelet.report.node.plan.node_object import (
    conditions_overwritten,
    is_changed,
    is_newer,
    is_ready,
    new_node,
    node_status,
    reconcile_patch,
    status_patch,
    with_cloud_addresses,
    wrong_labels,
)
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.reports.events import NORMAL, WARNING
from pykubelet.models.core_v1 import Node, NodeAddress, NodeStatus

_log = logging.getLogger(__name__)

_FIRST_DELAY: Final = 0.1
_MAX_DELAY: Final = 7.0
_SEARCH_SECONDS: Final = 140.0
"""Time to find the CSINode of a node that was ready; after that time the Go kubelet gives up."""


class NodeDeps(Struct, frozen=True, kw_only=True):
    """Everything that :class:`NodeReporter` acts through."""

    client: ApiClient
    facts: NodeFactsReader
    addresses: Callable[[tuple[NodeAddress, ...]], None]
    """Called with the node's addresses at every status."""
    storage: StorageState
    """Whether pods with CSI volumes can be scheduled to the node; it is not ready before."""
    changes: tuple[Callbacks[[]], ...]
    """The events after which the status is computed at once."""
    telemetry: Telemetry[Startup]


class NodeReporter:
    """Owns the agent's part of the Node object."""

    def __init__(self, deps: NodeDeps, config: NodeConfig) -> None:
        self._deps = deps
        self._config = config
        self._node: Node | None = None
        """The Node object as the API server last returned it."""
        self._registered_uid: str | None = None
        """The uid of the Node object that was created or corrected last; a watch, or an answer, may bring another."""
        self._sent: NodeStatus | None = None
        """The agent's part of the status as sent last; None: it has to be sent. The API server may drop some fields."""
        self._sent_at: Seconds = 0.0
        self._overwritten_at: Seconds = -math.inf
        """Time at which a report was caused at once, since others had overwritten the status."""
        self._found_at: Seconds = 0.0
        """Time at which the node was found registered."""
        self._guard = Guard("node.status", deps.telemetry.clock.monotonic)
        self._wakeup = Wakeup(deps.telemetry.clock)
        self._conditions_reported: dict[str, str] = {}
        """Conditions that events have been recorded for: type → status."""
        self._reboot_reported = False
        self._cordoned = False
        self._deletions = 0
        """Number of times that the Node object was deleted. A response to a request sent before a deletion is
        discarded."""
        self.registered = asyncio.Event()
        """Set once the node is known to be registered."""
        self.replaced = Callbacks[[]]()
        """Called when another Node object was registered in place of one that had been."""
        for change in deps.changes:
            change.subscribe(self.poke)

    def reconfigure(self, config: NodeConfig) -> None:
        """Report by these settings from now on. What the node was registered with stays."""
        self._config = config
        self._wakeup.wake()

    def current(self) -> Node | None:
        """Return the Node object as last seen; None before it is registered."""
        return self._node

    def node_updated(self, node: Node) -> bool:
        """Take over the Node object from a watch event; report again if others have overwritten the status.

        At once, but only once in a period: two agents of the same name would answer each other without end. Returns
        False for a version older than the known one: the watch may be behind responses to requests.
        """
        other = self._node is None or node.metadata.uid != self._node.metadata.uid
        if self._node is not None and not other and is_newer(self._node, node):
            return False
        self._node = node
        self._report_cordon(node)
        self.registered.set()
        if other or (self._sent is not None and conditions_overwritten(self._sent, node.status)):
            self._sent = None
            if other or self._may_answer_at_once():
                self._wakeup.wake()
        return True

    def _may_answer_at_once(self) -> bool:
        """Whether no report was caused by others within this period; note that one is."""
        now = self._deps.telemetry.clock.monotonic()
        if now - self._overwritten_at < self._config.update_every:
            return False
        self._overwritten_at = now
        return True

    def lacks(self, node: Node) -> bool:
        """Return whether a Node object is later than the known one, or the first."""
        return self._node is None or is_newer(node, self._node)

    def node_missing(self) -> None:
        """Handle that the API server has no such node: it was deleted, unless it has not been registered yet."""
        if self.registered.is_set():
            self.node_deleted()

    def node_deleted(self) -> None:
        """Register again: the API server has no such node any more."""
        self._node = self._sent = None
        self._deletions += 1
        self._wakeup.wake()

    def poke(self) -> None:
        """Recompute the status at once: something about the node has changed."""
        self._wakeup.wake()

    async def run(self) -> None:
        """Register, then report until cancelled. Errors are logged and retried."""
        backoff = Backoff(_FIRST_DELAY, _MAX_DELAY, jitter=0.2)
        while True:
            self._wakeup.clear()
            with self._guard.item(self._config.name) as attempt:
                await self.report()
            if attempt.error is not None:
                await self._deps.telemetry.clock.sleep(backoff.next("", self._deps.telemetry.clock.monotonic()))
                continue
            backoff.reset("")
            await self._wakeup.sleep(self._config.update_every)

    async def report(self) -> None:
        """Bring the Node object up to date if it has changed."""
        facts = await self._deps.facts.read()
        if self._node is None or self._node.metadata.uid != self._registered_uid:
            await self._register(facts)
            return
        node = await self._correct_labels(self._node)
        now = self._deps.telemetry.clock.monotonic()
        facts = self._completed(facts, node.status)
        status = node_status(facts, self._sent or node.status, self._config, self._deps.telemetry.clock.now())
        self._deps.addresses(status.addresses)
        is_due = (
            self._sent is None or now - self._sent_at >= self._config.report_every or is_changed(self._sent, status)
        )
        # If others have overwritten them, the controller could detach volumes that are mounted.
        if is_due or node.status.volumes_in_use != status.volumes_in_use:
            await self._send(node.status, status)

    async def _correct_labels(self, node: Node) -> Node:
        """Restore the labels by which pods choose operating system and architecture; return the node with them.

        Only with the periodic status: another client that insists on its value causes one request per period.
        """
        labels, deletions = wrong_labels(node, self._deps.facts.architecture()), self._deletions
        if not labels:
            return node
        _log.warning("node labels changed by others: restored", extra={"node": self._config.name, "labels": labels})
        # Upstream sends them with the status, too, for which an agent that must not register has the permission.
        target = NODES.at("", self._config.name, "status")
        try:
            corrected = await self._deps.client.patch(target, {"metadata": {"labels": labels}}, PatchKind.MERGE)
        except NotFound:
            self._node = None
            raise
        if self._deletions == deletions and not (self._node is not None and is_newer(self._node, corrected)):
            self._node = corrected
        return corrected

    def _completed(self, facts: NodeState, there: NodeStatus) -> NodeState:
        """Return the facts with what does not come from the machine; ``there`` is the status that the node has.

        A node that an earlier agent has reported as ready has its CSINode, which this agent finds in a moment: it must
        not become unready by a restart, until the search fails or takes too long.
        """
        storage = self._deps.storage
        fault, searched = storage.fault(), self._deps.telemetry.clock.monotonic() - self._found_at
        if fault is not None and not (is_ready(there) and storage.searching() and searched < _SEARCH_SECONDS):
            facts = replace(facts, faults=(*facts.faults, fault))
        return with_cloud_addresses(facts, there, self._config)

    async def _send(self, there: NodeStatus, status: NodeStatus, *, reset_extended: bool = False) -> None:
        target, deletions, before = NODES.at("", self._config.name, "status"), self._deletions, self._node
        try:
            patch = status_patch(there, status, reset_extended=reset_extended)
            node = await self._deps.client.patch(target, patch, PatchKind.STRATEGIC)
        except NotFound:
            self._node = None
            raise
        if self._deletions == deletions:
            self._store(node, status, before)

    def _store(self, node: Node, status: NodeStatus, before: Node | None) -> None:
        """Store the API server's response, unless a watch event has brought a newer object meanwhile."""
        observed = self._node
        self._node = node
        self._note_sent(status)
        if observed is not None and observed is not before and is_newer(observed, node):
            self.node_updated(observed)

    def _note_sent(self, status: NodeStatus) -> None:
        self._sent = status
        self._sent_at = self._deps.telemetry.clock.monotonic()
        if is_ready(status):
            self._deps.telemetry.metrics.ready()
        for reason in condition_events(self._conditions_reported, status.conditions):
            self._record_event(reason)
        self._conditions_reported = {condition.type: condition.status for condition in status.conditions}

    def _record_event(self, reason: str) -> None:
        self._deps.telemetry.events.event(None, NORMAL, reason, status_message(self._config.name, reason))

    def _report_cordon(self, node: Node) -> None:
        cordoned = bool(node.spec.unschedulable)
        if cordoned != self._cordoned:
            self._cordoned = cordoned
            self._record_event(SCHEDULABLE[self._cordoned])

    async def _register(self, facts: NodeState) -> None:
        client, config, deletions = self._deps.client, self._config, self._deletions
        architecture, refused = self._deps.facts.architecture(), None
        if config.register:
            self._deps.telemetry.metrics.registering()
            first = NodeStatus()
            status = node_status(self._completed(facts, first), first, config, self._deps.telemetry.clock.now())
            self._deps.addresses(status.addresses)
            try:
                node = await client.create(NODES.all(), new_node(config, status, architecture))
                _log.info("node registration: node created", extra={"node": config.name})
                self.registered.set()
                self._deps.telemetry.metrics.registered()
                if self._deletions == deletions:
                    self._store(node, status, None)
                    self._note_registered(node)
                return
            except AlreadyExists:
                pass
            except Forbidden as error:
                refused = error  # the node may have been created ahead of time
        try:
            node = await client.get(NODES.at("", config.name))
        except NotFound:
            if refused is not None:
                raise refused from None
            raise
        patch = reconcile_patch(node, config, architecture) if config.register else None
        if patch is not None:
            node = await client.patch(NODES.at("", config.name), patch, PatchKind.MERGE)
        _log.info("node registration: node exists already", extra={"node": config.name, "changed": patch is not None})
        if self._deletions != deletions:
            return
        if self.lacks(node):
            self._node = node
            self._report_cordon(node)
        self._found_at = self._deps.telemetry.clock.monotonic()
        self.registered.set()
        before, now = node.status.node_info, facts.info.boot_id
        if before is not None and before.boot_id not in ("", now) and not self._reboot_reported:
            self._reboot_reported = True
            self._deps.telemetry.events.event(None, WARNING, REBOOTED, reboot_message(config.name, now))
        status = node_status(self._completed(facts, node.status), node.status, config, self._deps.telemetry.clock.now())
        self._deps.addresses(status.addresses)
        # Device plugins of an earlier agent are gone; what people have set is set again by them, as with upstream.
        await self._send(node.status, status, reset_extended=True)
        self._note_registered(node)

    def _note_registered(self, node: Node) -> None:
        before, self._registered_uid = self._registered_uid, node.metadata.uid
        if before not in (None, node.metadata.uid):
            self.replaced()

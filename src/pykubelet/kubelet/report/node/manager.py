"""Registers the node and reports its status: what makes the machine a member of the cluster.

The status is looked at every 10 s and whenever :meth:`NodeReporter.poke` is called; it is sent when there is news, and
every 5 minutes in any case. That the node lives is the lease's to tell.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from pykubelet.apiclient import AlreadyExists, ApiClient, PatchKind
from pykubelet.apiclient.resources import NODES
from pykubelet.base.backoff import Backoff
from pykubelet.base.clock import Clock
from pykubelet.base.errors import NotFound
from pykubelet.base.guard import Guard
from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.node.compute_events import (
    REBOOTED,
    SCHEDULABLE,
    condition_events,
    reboot_message,
    status_message,
)
from pykubelet.kubelet.report.node.compute_node import (
    differs_there,
    in_a_cloud,
    is_changed,
    is_newer,
    new_node,
    node_status,
    reconcile_patch,
    status_patch,
)
from pykubelet.kubelet.report.node.ports import NodeFactsReader, NoStartup, Startup
from pykubelet.kubelet.report.node.types import NodeConfig, NodeFacts
from pykubelet.kubelet.types.events import NORMAL, WARNING, EventRecorder
from pykubelet.models.core_v1 import Node, NodeStatus

_log = logging.getLogger(__name__)

_FIRST_DELAY: Final = 0.1
_MAX_DELAY: Final = 7.0


@dataclass(frozen=True, slots=True)
class NodeDeps:
    """All that it acts through."""

    client: ApiClient
    facts: NodeFactsReader
    events: EventRecorder
    clock: Clock
    startup: Startup = NoStartup()


class NodeReporter:
    """Owns the node's object, as far as it is the agent's."""

    def __init__(self, deps: NodeDeps, config: NodeConfig) -> None:
        self._deps = deps
        self._config = config
        self._node: Node | None = None
        """As the API server has it, as far as we know."""
        self._sent: NodeStatus | None = None
        """Our part as it was sent last; None: it has to be sent. (The API server may not know all of it.)"""
        self._sent_at: Seconds = 0.0
        self._guard = Guard("node.status", deps.clock.monotonic)
        self._news = asyncio.Event()
        self._told: dict[str, str] = {}
        """Conditions that events have told of: type → status."""
        self._cordoned = False
        self._losses = 0
        """How often the node has gone: an answer that was under way meanwhile is about the one that is no more."""
        self.registered = asyncio.Event()
        """Set once the node is known to be there."""

    @property
    def node(self) -> Node | None:
        """The node's object as last seen; None before it is registered."""
        return self._node

    def learn(self, node: Node) -> None:
        """The API server told of its object (a watch)."""
        other = self._node is None or node.metadata.uid != self._node.metadata.uid
        self._node = node
        self._tell_cordon(node)
        self.registered.set()
        if other or (self._sent is not None and differs_there(self._sent, node.status)):
            self._sent = None
            self._news.set()

    def gone(self) -> None:
        """The API server has no such node any more: register again."""
        self._node = self._sent = None
        self._losses += 1
        self._news.set()

    def poke(self) -> None:
        """Something about the node has changed: look at once."""
        self._news.set()

    async def run(self) -> None:
        """Register, then report until cancelled. Errors are logged and outlived."""
        backoff = Backoff(_FIRST_DELAY, _MAX_DELAY, jitter=0.2)
        while True:
            self._news.clear()
            with self._guard.item(self._config.name) as attempt:
                await self.report()
            if attempt.error is not None:
                await self._deps.clock.sleep(backoff.next("", self._deps.clock.monotonic()))
                continue
            backoff.reset("")
            try:
                async with asyncio.timeout(self._config.update_every):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def report(self) -> None:
        """Bring the node's object up to date, if there is news."""
        facts = await self._deps.facts.read()
        if self._node is None:
            await self._register(facts)
            return
        now = self._deps.clock.monotonic()
        facts = in_a_cloud(facts, self._node.status, self._config)
        status = node_status(facts, self._sent or self._node.status, self._config, self._deps.clock.now())
        if self._sent is None or now - self._sent_at >= self._config.report_every or is_changed(self._sent, status):
            await self._send(self._node.status, status)

    async def _send(self, there: NodeStatus, status: NodeStatus) -> None:
        target, losses, before = NODES.at("", self._config.name, "status"), self._losses, self._node
        try:
            node = await self._deps.client.patch(target, status_patch(there, status), PatchKind.STRATEGIC)
        except NotFound:
            self._node = None
            raise
        if self._losses == losses:
            self._take(node, status, before)

    def _take(self, node: Node, status: NodeStatus, before: Node | None) -> None:
        """The API server's answer to what we sent. What it has told meanwhile of its own accord may be newer."""
        told = self._node
        self._node = node
        self._note(status)
        if told is not None and told is not before and is_newer(told, node):
            self.learn(told)

    def _note(self, status: NodeStatus) -> None:
        self._sent = status
        self._sent_at = self._deps.clock.monotonic()
        if any(condition.type == "Ready" and condition.status == "True" for condition in status.conditions):
            self._deps.startup.ready()
        for reason in condition_events(self._told, status.conditions):
            self._tell(reason)
        self._told = {condition.type: condition.status for condition in status.conditions}

    def _tell(self, reason: str) -> None:
        self._deps.events.event(None, NORMAL, reason, status_message(self._config.name, reason))

    def _tell_cordon(self, node: Node) -> None:
        cordoned = bool(node.spec.unschedulable)
        if cordoned != self._cordoned:
            self._cordoned = cordoned
            self._tell(SCHEDULABLE[self._cordoned])

    async def _register(self, facts: NodeFacts) -> None:
        client, config, losses = self._deps.client, self._config, self._losses
        architecture = self._deps.facts.architecture()
        if config.register:
            self._deps.startup.registering()
            first = in_a_cloud(facts, NodeStatus(), config)
            status = node_status(first, NodeStatus(), config, self._deps.clock.now())
            try:
                node = await client.create(NODES.all(), new_node(config, status, architecture))
                _log.info("node registered", extra={"node": config.name})
                self.registered.set()
                self._deps.startup.registered()
                if self._losses == losses:
                    self._take(node, status, None)
                return
            except AlreadyExists:
                pass
        node = await client.get(NODES.at("", config.name))
        patch = reconcile_patch(node, config, architecture) if config.register else None
        if patch is not None:
            node = await client.patch(NODES.at("", config.name), patch, PatchKind.MERGE)
        _log.info("node was there already", extra={"node": config.name, "changed": patch is not None})
        if self._losses != losses:
            return
        self._node = node
        self.registered.set()
        self._tell_cordon(node)
        before, now = node.status.node_info, facts.info.boot_id
        if before is not None and before.boot_id not in ("", now):
            self._deps.events.event(None, WARNING, REBOOTED, reboot_message(config.name, now))
        facts = in_a_cloud(facts, node.status, config)
        await self._send(node.status, node_status(facts, node.status, config, self._deps.clock.now()))

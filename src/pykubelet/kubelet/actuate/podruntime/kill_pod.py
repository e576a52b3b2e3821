"""Stops containers and whole pods within their grace periods."""

import asyncio
import logging
from collections.abc import Sequence

from msgspec import Struct

from pykubelet.base.clock import Clock
from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.cri_messages.labels import parse_container
from pykubelet.kubelet.actuate.podruntime.concurrency import concurrently, in_background, within
from pykubelet.kubelet.actuate.podruntime.plan.stop_order import (
    StopFacts,
    StopOrder,
    facts_from_labels,
    facts_from_spec,
    remaining_grace,
    stop_order,
)
from pykubelet.kubelet.actuate.podruntime.podruntime_interfaces import Cri
from pykubelet.kubelet.actuate.podruntime.podruntime_types import ContainerKill, PodReason
from pykubelet.kubelet.actuate.podruntime.runtime_errors import error_message
from pykubelet.kubelet.actuate.podruntime.start.lifecycle_hooks import HookError, HookRunner, HookTarget
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID, SandboxID
from pykubelet.kubelet.types.outcome import Failure, SyncAction
from pykubelet.kubelet.types.podspec import find_container
from pykubelet.kubelet.types.reports.events import NORMAL, WARNING, EventRecorder, Reason
from pykubelet.kubelet.types.runtime import ContainerState, PodRuntimeStatus
from pykubelet.models.core_v1 import Pod

_log = logging.getLogger(__name__)


class KillRequest(Struct, frozen=True):
    """Request to stop containers of one pod."""

    ref: PodRef
    pod: Pod | None
    """None for an orphan: its facts come from labels and annotations, and its hooks are not run."""
    ips: tuple[str, ...] = ()
    grace: Seconds | None = None
    """Overrides every other grace period."""


class Killer:
    """Stops containers and sandboxes. Each container has its own task, so one that hangs does not delay the others."""

    def __init__(self, *, cri: Cri, hooks: HookRunner, events: EventRecorder, clock: Clock) -> None:
        self._cri = cri
        self._hooks = hooks
        self._events = events
        self._clock = clock
        self._pre_stopped: dict[PodUID, set[ContainerID]] = {}

    async def kill_pod(self, request: KillRequest, status: PodRuntimeStatus) -> tuple[Failure, ...]:
        """Stop all containers, sidecars last, then all sandboxes. Repeatable; returns the failures."""
        alive = [c for c in status.unfinished if c.state is not ContainerState.CREATED]
        kills = [ContainerKill(c.id, c.name) for c in alive]
        order = stop_order(request.pod, {c.name for c in alive})
        failures = await self._kill_all(request, kills, _StopQueue(order))
        stops = [self._stop_sandbox(request.ref, sandbox.id) for sandbox in status.sandboxes]
        failures += [f for f in await concurrently(stops, "stop-sandbox") if f is not None]
        return tuple(failures)

    async def kill(self, request: KillRequest, kills: Sequence[ContainerKill]) -> tuple[Failure, ...]:
        """Stop these containers concurrently, in no particular order."""
        return tuple(await self._kill_all(request, kills, _StopQueue(StopOrder())))

    def forget(self, uid: PodUID) -> None:
        """Forget a pod that was removed."""
        self._pre_stopped.pop(uid, None)

    async def _kill_all(
        self, request: KillRequest, kills: Sequence[ContainerKill], order: "_StopQueue"
    ) -> list[Failure]:
        results = await concurrently((self._kill_one(request, kill, order) for kill in kills), "kill-container")
        return [failure for failure in results if failure is not None]

    async def _kill_one(self, request: KillRequest, kill: ContainerKill, order: "_StopQueue") -> Failure | None:
        try:
            facts = await self._facts(request, kill)
            await self._stop(request, kill, facts, order)
        except NotFound:
            pass
        except PykubeletError as error:
            _log.warning(
                "container not stopped",
                extra={"pod": str(request.ref), "container": kill.name, "error": str(error)},
            )
            return Failure(SyncAction.KILL_CONTAINER, kill.name, PodReason.KILL_CONTAINER, error_message(error))
        self._pre_stopped.get(request.ref.uid, set()).discard(kill.id)
        order.ended(kill.name)
        return None

    async def _facts(self, request: KillRequest, kill: ContainerKill) -> StopFacts:
        found = find_container(request.pod, kill.name) if request.pod is not None else None
        if request.pod is not None and found is not None:
            return facts_from_spec(request.pod, found[1], kill.reason)
        status = (await self._cri.container_status(kill.id)).status
        noted = parse_container(status.labels, status.annotations)
        if noted is None:
            raise NotFound(f"container {kill.id} does not belong to a pod")
        return facts_from_labels(noted)

    async def _stop(self, request: KillRequest, kill: ContainerKill, facts: StopFacts, order: "_StopQueue") -> None:
        """Stop one container: preStop hook, waiting for other containers and the stop share one grace period.

        A hook that does not end within it goes on until the container is killed.
        """
        message = kill.message or f"Stopping container {kill.name}"
        self._events.event(request.ref, NORMAL, Reason.KILLING_CONTAINER, message, container=kill.name)
        grace = facts.grace if request.grace is None else request.grace
        began = self._clock.monotonic()
        if facts.pre_stop is None or grace <= 0 or not self._may_run_hook(request, kill):
            await self._stop_in_order(kill, grace, began, order)
            return
        async with in_background(self._pre_stop(request, kill, facts), "pre-stop") as hook:
            if not await within(self._clock, grace, _end_of(hook), "pre-stop-limit"):
                _log.info(
                    "preStop hook timed out: grace period is over",
                    extra={"pod": str(request.ref), "container": kill.name, "grace_s": grace},
                )
            self._pre_stopped.setdefault(request.ref.uid, set()).add(kill.id)
            await self._stop_in_order(kill, grace, began, order)

    def _may_run_hook(self, request: KillRequest, kill: ContainerKill) -> bool:
        """Whether the preStop hook is run: once for each container, and not for orphans."""
        return request.pod is not None and kill.id not in self._pre_stopped.get(request.ref.uid, ())

    async def _stop_in_order(self, kill: ContainerKill, grace: Seconds, began: Seconds, order: "_StopQueue") -> None:
        left = grace - (self._clock.monotonic() - began)
        if left > 0 and order.has_to_wait(kill.name):
            await within(self._clock, left, order.wait(kill.name), "wait-for-stop-order")
        elapsed = self._clock.monotonic() - began
        await self._cri.stop_container(kill.id, remaining_grace(grace, elapsed))

    async def _pre_stop(self, request: KillRequest, kill: ContainerKill, facts: StopFacts) -> None:
        assert facts.pre_stop is not None
        target = HookTarget(request.ref, kill.name, kill.id, facts.ports, request.ips)
        try:
            await self._hooks.run(facts.pre_stop, target)
        except HookError:
            # The error may contain secrets of the container.
            self._events.event(
                request.ref, WARNING, Reason.FAILED_PRE_STOP_HOOK, "PreStopHook failed", container=kill.name
            )

    async def _stop_sandbox(self, ref: PodRef, sandbox: SandboxID) -> Failure | None:
        try:
            await self._cri.stop_pod_sandbox(sandbox)
        except NotFound:
            return None
        except PykubeletError as error:
            _log.warning("sandbox not stopped", extra={"pod": str(ref), "sandbox": sandbox, "error": str(error)})
            return Failure(SyncAction.KILL_POD, ref.name, PodReason.KILL_SANDBOX, error_message(error))
        return None


async def _end_of(task: asyncio.Task[None]) -> None:
    await asyncio.wait((task,))


class _StopQueue:
    """Makes sidecars wait until those that have to stop before them have stopped."""

    def __init__(self, order: StopOrder) -> None:
        self._order = (*order.free, *order.sidecars)
        self._may_stop = {name: asyncio.Event() for name in order.sidecars}
        self._ended: set[str] = set()
        self._at = 0
        """The first in the order that has not ended."""
        self._advance()

    def has_to_wait(self, name: str) -> bool:
        return name in self._may_stop and not self._may_stop[name].is_set()

    async def wait(self, name: str) -> None:
        await self._may_stop[name].wait()

    def ended(self, name: str) -> None:
        self._ended.add(name)
        self._advance()

    def _advance(self) -> None:
        while self._at < len(self._order):
            name = self._order[self._at]
            if name in self._may_stop:
                self._may_stop[name].set()
            if name not in self._ended:
                return
            self._ended.discard(name)
            self._at += 1

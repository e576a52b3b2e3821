"""Mirror pods: the copies of static pods at the API server, by which clients see them.

Level-triggered: after each change of a static pod or a mirror pod, all are compared and the differences applied.
Nothing here changes what runs, whether the API server is available or not.
"""

import logging
from collections.abc import Awaitable, Callable, Container
from typing import Final

from msgspec import Struct

from pykubelet.apiclient import AlreadyExists, ApiClient
from pykubelet.apiclient.resources import PODS
from pykubelet.base.backoff import Backoff
from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.callbacks import Callbacks
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.concurrency.wakeup import Wakeup
from pykubelet.base.errors import Conflict, Permanent, PykubeletError
from pykubelet.base.units import Seconds
from pykubelet.kubelet.desired.pods.plan.mirror_changes import mirror_for, plan_mirrors
from pykubelet.kubelet.desired.pods.pod_manager import PodManager
from pykubelet.kubelet.types.ids import PodFullName, ref_of
from pykubelet.models.core_v1 import Node, Pod

_log = logging.getLogger(__name__)

_FIRST_DELAY: Final = 0.5
_MAX_DELAY: Final = 60.0


class MirrorDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of `MirrorPods`."""

    client: ApiClient
    pods: PodManager
    node: Callable[[], Node | None]
    """Returns the Node object, which owns the mirror pods; None while the node is not registered."""
    listed: Callable[[], bool]
    """Whether the API server's pods have been read; before that, a missing mirror pod is unknown."""
    first_listed: Callbacks[[]]
    """They have been read for the first time."""
    ending: Callable[[], Container[PodFullName]]
    """Returns the names of static pods that were removed or have a new version, and are not gone yet."""
    clock: Clock


class MirrorPods:
    """The reconciliation of mirror pods. :meth:`poke` returns at once."""

    def __init__(self, deps: MirrorDeps) -> None:
        self._deps = deps
        self._rounds = Guard("mirrors.rounds", deps.clock.monotonic)
        self._pods = Guard("mirrors.pods", deps.clock.monotonic)
        self._wakeup = Wakeup(deps.clock)
        self._backoff = Backoff(_FIRST_DELAY, _MAX_DELAY, jitter=0.2)
        self._not_before: dict[PodFullName, Seconds] = {}
        """Names whose last attempt failed, with the time of the next one."""
        deps.first_listed.subscribe(self.poke)

    def poke(self) -> None:
        """Reconcile soon: a static pod, a mirror pod or the node has changed."""
        self._wakeup.wake()

    async def run(self) -> None:
        """Reconcile whenever poked, until cancelled."""
        while True:
            now = self._deps.clock.monotonic()
            waits = [at - now for at in self._not_before.values()]
            await self._wakeup.sleep(max(0.0, min(waits)) if waits else None)
            self._wakeup.clear()
            with self._rounds.item("reconcile") as attempt:
                await self.reconcile()
            if attempt.error is not None:
                await self._deps.clock.sleep(self._rounds.delay("reconcile"))
                self._wakeup.wake()

    async def reconcile(self) -> None:
        """Reconcile once; errors are logged, and the pods concerned retried with back-off."""
        deps = self._deps
        node = deps.node()
        if not deps.listed() or node is None:
            return
        plan = plan_mirrors(deps.pods.pods(), deps.pods.mirrors(), deps.ending())
        wanted = {ref_of(pod).full_name for pod in (*plan.delete, *plan.create)}
        for name in self._not_before.keys() - wanted:
            del self._not_before[name]
            self._backoff.reset(name)
        for mirror in plan.delete:
            await self._attempt(mirror, self._delete)
        for pod in plan.create:
            await self._attempt(pod, lambda each: self._create(each, node))

    async def _attempt(self, pod: Pod, act: Callable[[Pod], Awaitable[None]]) -> None:
        name, now = ref_of(pod).full_name, self._deps.clock.monotonic()
        if self._not_before.get(name, 0.0) > now:
            return
        with self._pods.item(name) as attempt:
            await self._try(pod, name, now, act)
        if attempt.error is not None:
            self._not_before[name] = now + self._pods.delay(name)

    async def _try(self, pod: Pod, name: PodFullName, now: Seconds, act: Callable[[Pod], Awaitable[None]]) -> None:
        try:
            await act(pod)
            self._not_before.pop(name, None)
        except PykubeletError as error:
            delay = self._backoff.next(name, now)
            if isinstance(error, Permanent):
                delay = _MAX_DELAY
            self._not_before[name] = now + delay
            extra = {"pod": str(ref_of(pod)), "error": str(error), "delay_s": round(delay, 1)}
            _log.warning("mirror pod: update failed", extra=extra)

    async def _delete(self, mirror: Pod) -> None:
        meta = mirror.metadata
        try:
            await self._deps.client.delete(PODS.at(meta.namespace, meta.name), meta.uid, grace_seconds=0)
            _log.info("mirror pod: deleted", extra={"pod": str(ref_of(mirror)), "uid": meta.uid})
        except Conflict:
            pass  # another pod has the name by now, which the watch will show

    async def _create(self, pod: Pod, node: Node) -> None:
        mirror = mirror_for(pod, node)
        try:
            await self._deps.client.create(PODS.all(mirror.metadata.namespace), mirror)
            _log.info("mirror pod: created", extra={"pod": str(ref_of(pod))})
        except AlreadyExists:
            _log.debug("mirror pod: a pod with its name exists already", extra={"pod": str(ref_of(pod))})
            raise

"""Requests for a pod by clients of the local API: each is recorded, and the pod's worker acts on it."""

import logging
from collections.abc import Callable

from msgspec import Struct

from pykubelet.base.errors import Conflict
from pykubelet.kubelet.actuate.images import ImageManager
from pykubelet.kubelet.actuate.podruntime.plan.requested_restarts import RestartRequest
from pykubelet.kubelet.actuate.podruntime.restart_requests import RestartRequests
from pykubelet.kubelet.control.workers import PodWorkers
from pykubelet.kubelet.types.ids import PodUID

_log = logging.getLogger(__name__)


class PodRequests(Struct, frozen=True, kw_only=True):
    """Records requests and wakes the worker of the pod."""

    restarts: RestartRequests
    images: ImageManager
    wake: Callable[[frozenset[PodUID]], None]
    workers: PodWorkers

    async def restart(self, uid: PodUID, container: str) -> None:
        """Restart a container, or the whole pod if the name is empty. Transient: it cannot be recorded."""
        containers = frozenset({container} if container else ())
        await self.restarts.add(uid, RestartRequest(containers=containers, pod=not container))
        _log.info("pod request: restart recorded", extra={"uid": uid, "container": container})
        self.wake(frozenset({uid}))

    def stop(self, uid: PodUID, grace_seconds: int) -> None:
        """Give a pod that is being deleted this grace period. Conflict: a source still lists the pod."""
        state = self.workers.state(uid)
        if state is None or state.wanted:
            raise Conflict(f"the pod with uid {uid} is not being deleted: remove its manifest first")
        self.workers.remove(uid, grace_seconds)
        _log.info("pod request: grace period of the deletion", extra={"uid": uid, "grace_s": grace_seconds})

    async def retry(self, uid: PodUID) -> None:
        """Skip the present back-offs of the pod: of crash loops and image pulls. Transient: it cannot be recorded."""
        self.images.forget(uid)
        await self.restarts.add(uid, RestartRequest(waiting=True))
        _log.info("pod request: retry recorded", extra={"uid": uid})
        self.wake(frozenset({uid}))

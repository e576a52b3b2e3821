"""Removes what pods leave behind: dead containers, sandboxes, logs and the links to them."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

from pykubelet.base.clock import Clock
from pykubelet.base.errors import NotFound, PykubeletError, Transient
from pykubelet.kubelet.actuate.criconfig.labels import parse_container
from pykubelet.kubelet.actuate.podruntime import convert
from pykubelet.kubelet.actuate.podruntime.decide_gc import GcPolicy, garbage_containers, garbage_sandboxes
from pykubelet.kubelet.actuate.podruntime.kill import Killer, KillRequest
from pykubelet.kubelet.actuate.podruntime.logfiles import LogFiles
from pykubelet.kubelet.actuate.podruntime.ports import Cri
from pykubelet.kubelet.actuate.podruntime.runtime_errors import words
from pykubelet.kubelet.actuate.podruntime.status import StatusReader
from pykubelet.kubelet.actuate.podruntime.together import both, together
from pykubelet.kubelet.actuate.podruntime.types import ContainerKill
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID, SandboxID
from pykubelet.kubelet.types.runtime import ContainerState, ContainerStatus
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)


class Collector:
    """Removes things for good. Nothing here runs any more, except by a mistake of the runtime."""

    def __init__(self, cri: Cri, reader: StatusReader, killer: Killer, logs: LogFiles, clock: Clock) -> None:
        self._cri = cri
        self._reader = reader
        self._killer = killer
        self._logs = logs
        self._clock = clock

    async def collect(
        self, policy: GcPolicy, keep: Callable[[], AbstractSet[PodUID]], ended: AbstractSet[PodUID]
    ) -> None:
        """One round. Nothing of pods outside ``keep`` is kept, and no container of those in ``ended``.

        ``keep`` is asked after the lists are read, so that a pod which came meanwhile is safe. What cannot be removed
        is logged and left for the next round; only a failure to list is raised.
        """
        folders = await asyncio.to_thread(self._logs.pod_dirs)
        links = await asyncio.to_thread(self._logs.dead_links)
        sandboxes, rows = await both(self._cri.list_pod_sandboxes(), self._cri.list_containers(), "gc-list")
        pods = convert.runtime_pods(sandboxes, rows)
        wanted = keep()

        def removable(uid: PodUID) -> bool:
            return uid not in wanted or uid in ended

        by_id = {row.id: row for row in rows}
        garbage = garbage_containers(pods, policy, removable, self._clock.now())
        removed = {c.id for c in garbage if await self._try_remove(by_id[c.id])}
        for sandbox in garbage_sandboxes(pods, removed, removable):
            if error := await self._remove_sandbox(sandbox.id):
                _log.warning("cannot remove a sandbox", extra={"sandbox": sandbox.id, "error": error})
        await asyncio.to_thread(self._logs.remove_dirs, [f for f, uid in folders.items() if uid not in wanted])
        # The log of a living container may be missing for a moment, while it is rotated or not yet begun.
        living = {c.id for pod in pods for c in pod.containers if c.state is not ContainerState.EXITED}
        dead = [link for link, container in links.items() if container not in living]
        await asyncio.to_thread(self._logs.remove_links, dead)

    async def remove_pod(self, ref: PodRef) -> None:
        """Remove all of a stopped pod: containers, sandboxes, logs. Raises Transient if something stays."""
        sandboxes, containers = await self._reader.rows(ref.uid)
        errors = await together((self._remove(ContainerID(row.id)) for row in containers), "remove-container")
        errors += await together((self._remove_sandbox(SandboxID(box.id)) for box in sandboxes), "remove-sandbox")
        failed = [error for error in errors if error is not None]
        if failed:
            raise Transient(f"pod {ref} is not removed from the runtime yet: {'; '.join(failed)}")
        try:
            await asyncio.to_thread(self._logs.remove_pod, ref)
        except OSError as error:
            raise Transient(f"the logs of pod {ref} cannot be removed: {error}") from error

    async def remove_attempts(self, ref: PodRef, attempts: Sequence[ContainerStatus], *, with_logs: bool) -> None:
        """Remove attempts that have ended; a failure is only logged, since the next round tries again.

        A log that stays keeps the restart count, for a container of which nothing else is left.
        """
        for attempt in attempts:
            error = await self._remove(attempt.id)
            if error is not None:
                fields = {"pod": str(ref), "container": attempt.name, "error": error}
                _log.warning("cannot remove a dead container", extra=fields)
            elif with_logs:
                await asyncio.to_thread(self._logs.remove_attempt, ref, attempt.name, attempt.id, attempt.restart_count)
            else:
                await asyncio.to_thread(self._logs.unlink, ref, attempt.name, attempt.id)

    async def _try_remove(self, row: pb.Container) -> bool:
        """Remove a container and the logs of its attempt."""
        container = ContainerID(row.id)
        noted = parse_container(row.labels, row.annotations)
        if noted is not None and row.state == pb.CONTAINER_UNKNOWN:
            message = "Container is in unknown state, try killing it before removal"
            kill = ContainerKill(container, noted.name, message)
            if await self._killer.kill(KillRequest(noted.ref, None), [kill]):
                return False
        error = await self._remove(container)
        if error is not None:
            _log.warning("cannot remove a dead container", extra={"id": container, "error": error})
            return False
        if noted is not None:
            await asyncio.to_thread(self._logs.remove_attempt, noted.ref, noted.name, container, noted.restart_count)
        return True

    async def _remove(self, container: ContainerID) -> str | None:
        try:
            await self._cri.remove_container(container)
        except NotFound:
            return None
        except PykubeletError as error:
            return words(error)
        return None

    async def _remove_sandbox(self, sandbox: SandboxID) -> str | None:
        """Stop it once more, since a network that was not given back is lost with it, and remove it."""
        try:
            await self._cri.stop_pod_sandbox(sandbox)
        except NotFound:
            pass
        except PykubeletError as error:
            return words(error)
        try:
            await self._cri.remove_pod_sandbox(sandbox)
        except NotFound:
            return None
        except PykubeletError as error:
            return words(error)
        return None

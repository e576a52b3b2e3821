"""Removes what pods leave behind: dead containers, sandboxes, logs and the links to them."""

import logging
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from pykubelet.base import blocking
from pykubelet.base.clock import Clock
from pykubelet.base.errors import NotFound, PykubeletError, Transient
from pykubelet.base.guard import Guard
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
from pykubelet.kubelet.types.runtime import ContainerState, ContainerStatus, ContainerSummary, SandboxSummary
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
        self._containers = Guard("gc.containers", clock.monotonic)
        self._sandboxes = Guard("gc.sandboxes", clock.monotonic)
        self._dirs = Guard("gc.logs", clock.monotonic)
        self._links = Guard("gc.log-links", clock.monotonic)
        self._living: AbstractSet[ContainerID] = frozenset()
        """The containers that lived in the last round, whose links need no look in the next one."""

    async def collect(
        self, policy: GcPolicy, keep: Callable[[], AbstractSet[PodUID]], ended: AbstractSet[PodUID]
    ) -> None:
        """One round. Nothing of pods outside ``keep`` is kept, and no container of those in ``ended``.

        ``keep`` is asked after the lists are read, so that a pod which came meanwhile is safe. What cannot be listed or
        removed is logged and retried in a later round; only a failure of the runtime to list is raised.
        """
        dirs: dict[Path, PodUID] = {}
        links: dict[Path, ContainerID | None] = {}
        with self._dirs.item(str(self._logs.root)):
            dirs = await blocking.call("logs", self._logs.pod_dirs)
        with self._links.item(str(self._logs.root)):
            links = await blocking.call("logs", self._logs.dead_links, self._living)
        sandboxes, rows = await both(self._cri.list_pod_sandboxes(), self._cri.list_containers(), "gc-list")
        pods = convert.runtime_pods(sandboxes, rows)
        wanted = keep()

        def removable(uid: PodUID) -> bool:
            return uid not in wanted or uid in ended

        by_id = {row.id: row for row in rows}
        removed: set[ContainerID] = set()
        for container in self._containers.due(garbage_containers(pods, policy, removable, self._clock.now()), _id):
            with self._containers.item(container.id):
                await self._take(by_id[container.id])
                removed.add(container.id)
        for sandbox in self._sandboxes.due(garbage_sandboxes(pods, removed, removable), _id):
            with self._sandboxes.item(sandbox.id):
                if error := await self._remove_sandbox(sandbox.id):
                    raise Transient(f"cannot remove sandbox {sandbox.id}: {error}")
        for folder in self._dirs.due([folder for folder, uid in dirs.items() if uid not in wanted]):
            with self._dirs.item(str(folder)):
                await blocking.call_to_end(f"pod/{dirs[folder]}", self._logs.remove_dir, folder)
        # The log of a living container may be missing for a moment, while it is rotated or not yet begun.
        self._living = {c.id for pod in pods for c in pod.containers if c.state is not ContainerState.EXITED}
        for link in self._links.due([link for link, container in links.items() if container not in self._living]):
            with self._links.item(str(link)):
                await blocking.call("logs", self._logs.remove_link, link)

    async def remove_pod(self, ref: PodRef) -> None:
        """Remove all of a stopped pod: containers, sandboxes, logs. Raises Transient if something stays."""
        sandboxes, containers = await self._reader.rows(ref.uid)
        errors = await together((self._remove(ContainerID(row.id)) for row in containers), "remove-container")
        errors += await together((self._remove_sandbox(SandboxID(box.id)) for box in sandboxes), "remove-sandbox")
        failed = [error for error in errors if error is not None]
        if failed:
            raise Transient(f"pod {ref} is not removed from the runtime yet: {'; '.join(failed)}")
        try:
            await blocking.call_to_end(_owner(ref), self._logs.remove_pod, ref)
        except OSError as error:
            raise Transient(f"the logs of pod {ref} cannot be removed: {error}") from error

    async def remove_attempts(self, ref: PodRef, attempts: Sequence[ContainerStatus], *, with_logs: bool) -> None:
        """Remove attempts that have ended; a failure is only logged, since the next round tries again.

        A log that stays keeps the restart count, for a container of which nothing else is left.
        """
        for attempt in attempts:
            with self._containers.item(attempt.id):
                if error := await self._remove(attempt.id):
                    raise Transient(f"cannot remove dead container {attempt.name} of pod {ref}: {error}")
                if with_logs:
                    await self._remove_log(ref, attempt.name, attempt.id, attempt.restart_count)
                else:
                    await blocking.call(_owner(ref), self._logs.unlink, ref, attempt.name, attempt.id)

    async def _take(self, row: pb.Container) -> None:
        """Remove a container and the logs of its attempt. Raises base errors or OSError for what stays."""
        container = ContainerID(row.id)
        noted = parse_container(row.labels, row.annotations)
        if noted is not None and row.state == pb.CONTAINER_UNKNOWN:
            message = "Container is in unknown state, try killing it before removal"
            kill = ContainerKill(container, noted.name, message)
            if await self._killer.kill(KillRequest(noted.ref, None), [kill]):
                raise Transient(f"container {container} is in unknown state and cannot be killed")
        if error := await self._remove(container):
            raise Transient(f"cannot remove dead container {container}: {error}")
        if noted is not None:
            await self._remove_log(noted.ref, noted.name, container, noted.restart_count)

    async def _remove_log(self, ref: PodRef, name: str, container: ContainerID, restart_count: int) -> None:
        """A log that stays does not keep its container, which is removed already; it goes with its pod."""
        try:
            await blocking.call_to_end(_owner(ref), self._logs.remove_attempt, ref, name, container, restart_count)
        except (PykubeletError, OSError) as error:
            fields = {"pod": str(ref), "container": name, "error": str(error)}
            _log.warning("log of a removed container cannot be removed; it goes with its pod", extra=fields)

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


def _owner(ref: PodRef) -> str:
    return f"pod/{ref.uid}"


def _id(found: ContainerSummary | SandboxSummary) -> str:
    return found.id

"""Garbage collection: removes dead containers, sandboxes, logs and log symlinks of pods."""

import logging
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.errors import NotFound, PykubeletError, Transient
from pykubelet.kubelet.actuate.cri.plan import conversion
from pykubelet.kubelet.actuate.cri_messages.labels import parse_container
from pykubelet.kubelet.actuate.podruntime.concurrency import both, concurrently
from pykubelet.kubelet.actuate.podruntime.kill_pod import Killer, KillRequest
from pykubelet.kubelet.actuate.podruntime.log_directories import LogFiles
from pykubelet.kubelet.actuate.podruntime.plan.container_ages import ContainerAges
from pykubelet.kubelet.actuate.podruntime.plan.removals import ContainerGcPolicy, garbage_containers, garbage_sandboxes
from pykubelet.kubelet.actuate.podruntime.podruntime_interfaces import Cri
from pykubelet.kubelet.actuate.podruntime.podruntime_types import ContainerKill
from pykubelet.kubelet.actuate.podruntime.read_status import StatusReader
from pykubelet.kubelet.actuate.podruntime.runtime_errors import error_message
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID, SandboxID
from pykubelet.kubelet.types.runtime import ContainerState, ContainerStatus, ContainerSummary, SandboxSummary
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)


class Collector:
    """Removes containers, sandboxes and logs. Containers in unknown state are killed first, others have exited."""

    def __init__(self, *, cri: Cri, reader: StatusReader, killer: Killer, logs: LogFiles, clock: Clock) -> None:
        self._cri = cri
        self._reader = reader
        self._killer = killer
        self._logs = logs
        self._clock = clock
        self._containers = Guard("gc.containers", clock.monotonic)
        self._sandboxes = Guard("gc.sandboxes", clock.monotonic)
        self._dirs = Guard("gc.logs", clock.monotonic)
        self._links = Guard("gc.log-links", clock.monotonic)
        self._ages = ContainerAges()
        self._living: AbstractSet[ContainerID] = frozenset()
        """The containers that lived in the last round, whose links need no look in the next one."""

    async def collect(
        self,
        policy: ContainerGcPolicy,
        keep: Callable[[], AbstractSet[PodUID]] | None,
        ended: Callable[[], AbstractSet[PodUID]],
    ) -> None:
        """Run one round: remove everything of pods outside ``keep``, and the dead containers of pods in ``ended``.

        ``keep`` None: all pods. Both are called after the lists were read, so that a pod added or started again
        meanwhile is safe. What cannot be listed or removed is logged and retried in a later round; an error of the
        runtime's lists is raised.
        """
        dirs: dict[Path, PodUID] = {}
        links: dict[Path, ContainerID | None] = {}
        with self._dirs.item(str(self._logs.root)):
            dirs = await blocking.call("logs", self._logs.pod_dirs)
        with self._links.item(str(self._logs.root)):
            links = await blocking.call("logs", self._logs.links.dead, self._living)
        began = self._clock.monotonic()
        sandboxes, rows = await both(self._cri.list_pod_sandboxes(), self._cri.list_containers(), "gc-list")
        pods = conversion.runtime_pods(sandboxes, rows)
        self._ages.look((each for pod in pods for each in pod.containers), began, self._clock.now())
        wanted, spent = keep() if keep is not None else None, ended()

        def unknown(uid: PodUID) -> bool:
            return wanted is not None and uid not in wanted

        def removable(uid: PodUID) -> bool:
            return unknown(uid) or uid in spent

        by_id = {row.id: row for row in rows}
        removed: set[ContainerID] = set()
        for container in self._containers.due(garbage_containers(pods, policy, removable, self._ages.age), _id):
            with self._containers.item(container.id):
                await self._remove_dead(by_id[container.id])
                removed.add(container.id)
        for sandbox in self._sandboxes.due(garbage_sandboxes(pods, removed, removable), _id):
            with self._sandboxes.item(sandbox.id):
                if error := await self._remove_sandbox(sandbox.id):
                    raise Transient(f"cannot remove sandbox {sandbox.id}: {error}")
        for directory in self._dirs.due([directory for directory, uid in dirs.items() if unknown(uid)]):
            with self._dirs.item(str(directory)):
                await blocking.call_to_end(f"pod/{dirs[directory]}", self._logs.remove_dir, directory)
        # The log of a running container may be missing for a moment: during rotation, or before its first line.
        self._living = {c.id for pod in pods for c in pod.containers if c.state is not ContainerState.EXITED}
        for link in self._links.due([link for link, container in links.items() if container not in self._living]):
            with self._links.item(str(link)):
                await blocking.call("logs", self._logs.links.drop, link)

    async def remove_pod(self, ref: PodRef, *, keep_logs: bool = False) -> None:
        """Remove containers, sandboxes and logs of a stopped pod. Raises Transient if something remains.

        With ``keep_logs`` only the links to the logs are removed: the pod starts again, and its restart counts are
        derived from the logs. Containers that never ran are marked, so that they do not count.
        """
        sandboxes, containers = await self._reader.rows(ref.uid)
        if keep_logs:
            await self._mark_unstarted(ref, containers)
        errors = await concurrently((self._remove(ContainerID(row.id)) for row in containers), "remove-container")
        errors += await concurrently((self._remove_sandbox(SandboxID(box.id)) for box in sandboxes), "remove-sandbox")
        failed = [error for error in errors if error is not None]
        if failed:
            raise Transient(f"pod {ref} is not removed from the runtime yet: {'; '.join(failed)}")
        try:
            if keep_logs:
                await blocking.call_to_end(_owner(ref), self._logs.links.remove_into, self._logs.pod_dir(ref))
            else:
                await blocking.call_to_end(_owner(ref), self._logs.remove_pod, ref)
        except OSError as error:
            raise Transient(f"cannot remove the logs of pod {ref}: {error}") from error

    async def _mark_unstarted(self, ref: PodRef, rows: Sequence[pb.Container]) -> None:
        for row in rows:
            noted = parse_container(row.labels, row.annotations)
            if noted is None or row.state != pb.CONTAINER_CREATED:
                continue
            try:
                await blocking.call_to_end(_owner(ref), self._logs.mark_unstarted, ref, noted.name, noted.restart_count)
            except OSError as error:
                raise Transient(f"cannot mark the log of container {noted.name} of pod {ref}: {error}") from error

    async def remove_attempts(self, ref: PodRef, attempts: Sequence[ContainerStatus], *, with_logs: bool) -> None:
        """Remove attempts that have exited; a failure is only logged, since the next round retries.

        Without ``with_logs`` the log is kept: the restart count of a container without attempts is derived from it.
        """
        for attempt in attempts:
            with self._containers.item(attempt.id):
                if error := await self._remove(attempt.id):
                    raise Transient(f"cannot remove dead container {attempt.name} of pod {ref}: {error}")
                if with_logs:
                    await self._remove_log(ref, attempt.name, attempt.id, attempt.restart_count)
                else:
                    await blocking.call(_owner(ref), self._logs.links.remove, ref, attempt.name, attempt.id)

    async def _remove_dead(self, row: pb.Container) -> None:
        """Remove a container and its log. Raises base errors or OSError if something remains."""
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
        """Remove the log of a removed container; a failure is only logged, since the log is removed with its pod."""
        try:
            await blocking.call_to_end(_owner(ref), self._logs.remove_attempt, ref, name, container, restart_count)
        except (PykubeletError, OSError) as error:
            fields = {"pod": str(ref), "container": name, "error": str(error)}
            _log.warning("log of a removed container not removed: retried when its pod is removed", extra=fields)

    async def _remove(self, container: ContainerID) -> str | None:
        try:
            await self._cri.remove_container(container)
        except NotFound:
            return None
        except PykubeletError as error:
            return error_message(error)
        return None

    async def _remove_sandbox(self, sandbox: SandboxID) -> str | None:
        """Stop a sandbox again, so that its network is released, and remove it; return the error."""
        try:
            await self._cri.stop_pod_sandbox(sandbox)
        except NotFound:
            pass
        except PykubeletError as error:
            return error_message(error)
        try:
            await self._cri.remove_pod_sandbox(sandbox)
        except NotFound:
            return None
        except PykubeletError as error:
            return error_message(error)
        return None


def _owner(ref: PodRef) -> str:
    return f"pod/{ref.uid}"


def _id(found: ContainerSummary | SandboxSummary) -> str:
    return found.id

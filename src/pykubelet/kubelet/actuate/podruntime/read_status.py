"""Reads the actual state from the runtime: lists for PLEG and housekeeping, the full status of a pod for its worker.

The only cached values are containers that have exited, which never change again, and the pods and sandboxes that the
runtime is known to have.
"""

import logging
from collections.abc import Container, Coroutine, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias, TypeVar

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.kubelet.actuate.cri.plan import conversion
from pykubelet.kubelet.actuate.cri_messages.labels import POD_UID, ParsedContainerLabels, parse_container
from pykubelet.kubelet.actuate.cri_messages.termination import (
    LOG_TAIL_BYTES,
    MAX_FILE_BYTES,
    termination_message,
    wants_log,
)
from pykubelet.kubelet.actuate.podruntime.concurrency import both, concurrently
from pykubelet.kubelet.actuate.podruntime.log_directories import LogFiles
from pykubelet.kubelet.actuate.podruntime.podruntime_interfaces import Cri, PodFiles
from pykubelet.kubelet.actuate.podruntime.start.pod_files import read_tail
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID, SandboxID
from pykubelet.kubelet.types.runtime import (
    ContainerState,
    ContainerStatus,
    PodRuntimeStatus,
    RuntimePod,
)
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)
T = TypeVar("T")


_Found: TypeAlias = tuple[pb.ContainerStatus, str]
"""A container status and the id of its sandbox."""


class StatusReader:
    """Reads lists and statuses from the runtime. CRI calls about one pod run concurrently."""

    def __init__(self, *, cri: Cri, files: PodFiles, logs: LogFiles, clock: Clock) -> None:
        self._cri = cri
        self._files = files
        self._logs = logs
        self._clock = clock
        self._ended: dict[PodUID, dict[ContainerID, ContainerStatus]] = {}
        self._listed: set[PodUID] | None = None
        """Pods of the last full list."""
        self._read_before: set[PodUID] = set()
        self._sandbox_ids: dict[PodUID, frozenset[SandboxID]] = {}
        """Sandboxes of pods as last read."""
        self._with_containers = False
        """Whether the runtime returns containers with the sandbox status (KEP-3386), which saves half of the calls."""

    async def list_pods(self) -> list[RuntimePod]:
        """List all pods of the runtime with two calls."""
        sandboxes, containers = await both(self._cri.list_pod_sandboxes(), self._cri.list_containers(), "list-runtime")
        pods = conversion.runtime_pods(sandboxes, containers)
        self._listed = {pod.uid for pod in pods}
        for uid in self._ended.keys() - self._listed:
            del self._ended[uid]
        return pods

    async def list_pod(self, uid: PodUID) -> RuntimePod | None:
        """List one pod, as in `list_pods`; None if the runtime does not have it."""
        pods = conversion.runtime_pods(*await self.rows(uid))
        return pods[0] if pods else None

    async def pod_status(self, ref: PodRef) -> PodRuntimeStatus:
        """Read the full status of one pod. Objects that disappear during the read are left out.

        The first read of a pod that was not in the last list makes no calls: only this agent creates its sandboxes and
        containers, so there are none.
        """
        observed_at = self._clock.now()
        known = self._listed is None or ref.uid in self._listed or ref.uid in self._read_before
        self._read_before.add(ref.uid)
        if not known:
            return PodRuntimeStatus(ref=ref, observed_at=observed_at)
        ended = self._ended.get(ref.uid, {})
        sandboxes, found = await self._read(ref.uid, ended)
        fresh = await concurrently((self._converted(*each) for each in found if each[0].id not in ended), "messages")
        containers = [ended[here] for here in ended.keys() & {status.id for status, _ in found}] + fresh
        self._remember(ref.uid, containers)
        return PodRuntimeStatus(
            ref=ref,
            sandboxes=conversion.newest_first(conversion.sandbox_status(each.status) for each in sandboxes),
            containers=conversion.containers_newest_first(containers),
            observed_at=observed_at,
        )

    async def _read(self, uid: PodUID, ended: Container[str]) -> tuple[list[pb.PodSandboxStatusResponse], list[_Found]]:
        """Read the sandboxes and containers of a pod; of containers in ``ended`` possibly only the id."""
        if self._with_containers:
            # The sandboxes rarely change, so the list and the known statuses are read concurrently.
            known = self._sandbox_ids.get(uid, frozenset())
            boxes, sandboxes = await both(
                self._cri.list_pod_sandboxes(pb.PodSandboxFilter(label_selector={POD_UID: uid})),
                _existing((self._sandbox(box) for box in known), "sandbox-status"),
                "pod-status",
            )
            here = self._sandbox_ids[uid] = frozenset(SandboxID(box.id) for box in boxes)
            sandboxes = [each for each in sandboxes if each.status.id in here]
            sandboxes += await _existing((self._sandbox(box) for box in here - known), "sandbox-status")
            if sandboxes and all(each.timestamp for each in sandboxes):
                return sandboxes, [(one, each.status.id) for each in sandboxes for one in each.containers_statuses]
        boxes, rows = await self.rows(uid)
        sandboxes, found = await both(
            _existing((self._sandbox(SandboxID(box.id)) for box in boxes), "sandbox-status"),
            _existing((self._container(row) for row in rows if row.id not in ended), "container-status"),
            "pod-status",
        )
        if sandboxes:
            self._with_containers = all(each.timestamp for each in sandboxes)
        found += [(pb.ContainerStatus(id=row.id), row.pod_sandbox_id) for row in rows if row.id in ended]
        return sandboxes, found

    async def rows(self, uid: PodUID) -> tuple[list[pb.PodSandbox], list[pb.Container]]:
        """Read the entries of one pod in the runtime's lists."""
        selector = {POD_UID: uid}
        return await both(
            self._cri.list_pod_sandboxes(pb.PodSandboxFilter(label_selector=selector)),
            self._cri.list_containers(pb.ContainerFilter(label_selector=selector)),
            "list-pod",
        )

    async def _sandbox(self, sandbox: SandboxID) -> pb.PodSandboxStatusResponse | None:
        """Read the status of a sandbox; None if it does not exist any more."""
        with suppress(NotFound):
            return await self._cri.pod_sandbox_status(sandbox)
        return None

    async def _container(self, row: pb.Container) -> _Found | None:
        """Read the status of a container; None if it does not exist any more."""
        with suppress(NotFound):
            return (await self._cri.container_status(ContainerID(row.id))).status, row.pod_sandbox_id
        return None

    async def _converted(self, status: pb.ContainerStatus, sandbox: str) -> ContainerStatus:
        message = await self._message(status) if status.state == pb.CONTAINER_EXITED else ""
        return conversion.container_status(status, SandboxID(sandbox), message)

    def expect_sandbox(self, uid: PodUID, sandbox: SandboxID) -> None:
        """Note a sandbox that was just created, so that the next status reads it at once."""
        self._sandbox_ids[uid] = self._sandbox_ids.get(uid, frozenset()) | {sandbox}

    def forget(self, uid: PodUID) -> None:
        """Forget a pod that was removed from the runtime."""
        self._ended.pop(uid, None)
        self._read_before.discard(uid)
        self._sandbox_ids.pop(uid, None)

    def _remember(self, uid: PodUID, containers: list[ContainerStatus]) -> None:
        ended = {c.id: c for c in containers if c.state is ContainerState.EXITED and c.finished_at}
        if ended:
            self._ended[uid] = ended
        else:
            self._ended.pop(uid, None)

    async def _message(self, status: pb.ContainerStatus) -> str:
        """Read the message of an exited container; an error in reading it is returned in its place."""
        noted = parse_container(status.labels, status.annotations)
        if noted is None:
            return status.message
        file = _message_file(status, noted)
        if file is None and not _wants_log(status, noted, None):
            return status.message
        return await blocking.call(f"pod/{noted.ref.uid}", self._read_message, status, noted, file)

    def _read_message(self, status: pb.ContainerStatus, noted: ParsedContainerLabels, file: str | None) -> str:
        content = tail = None
        try:
            if file is not None:
                # Only the file name is taken from the runtime; nothing outside the known directory is read.
                content = read_tail(self._files.container(noted.ref.uid, noted.name), file, MAX_FILE_BYTES)
            if _wants_log(status, noted, content):
                tail = self._logs.read_tail(noted.ref, noted.name, noted.restart_count, LOG_TAIL_BYTES)
        except (OSError, PykubeletError) as error:
            _log.warning(
                "termination message not read",
                extra={"pod": str(noted.ref), "container": noted.name, "error": str(error)},
            )
            content = f"Error on reading termination message: {error}".encode()
        return termination_message(status.message, content, tail)


async def _existing(work: Iterable[Coroutine[object, object, T | None]], name: str) -> list[T]:
    """Run reads concurrently; return the results that are not None."""
    return [each for each in await concurrently(work, name) if each is not None]


def _wants_log(status: pb.ContainerStatus, noted: ParsedContainerLabels, content: bytes | None) -> bool:
    return wants_log(noted.termination_message_policy, status.exit_code, status.reason, content)


def _message_file(status: pb.ContainerStatus, noted: ParsedContainerLabels) -> str | None:
    """Name of the file that is mounted at the container's termination message path, if any."""
    path = noted.termination_message_path
    if not path:
        return None
    inside = str(Path("/") / path)
    return next((Path(m.host_path).name for m in status.mounts if m.container_path == inside), None)

"""Reads the actual state from the runtime: rows for PLEG, everything about one pod for its worker.

Nothing is remembered but containers that have ended, which never change again.
"""

import asyncio
import logging
from pathlib import Path

from pykubelet.base.clock import Clock
from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.kubelet.actuate.criconfig.labels import POD_UID, ParsedContainerLabels, parse_container
from pykubelet.kubelet.actuate.criconfig.names import container_log_path
from pykubelet.kubelet.actuate.criconfig.termination import (
    LOG_TAIL_BYTES,
    MAX_FILE_BYTES,
    termination_message,
    wants_log,
)
from pykubelet.kubelet.actuate.podruntime import convert
from pykubelet.kubelet.actuate.podruntime.logfiles import LogFiles
from pykubelet.kubelet.actuate.podruntime.podfiles import read_tail
from pykubelet.kubelet.actuate.podruntime.ports import Cri, PodFiles
from pykubelet.kubelet.actuate.podruntime.together import both, together
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID, SandboxID
from pykubelet.kubelet.types.runtime import (
    ContainerState,
    ContainerStatus,
    PodRuntimeStatus,
    RuntimePod,
    SandboxStatus,
)
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)


class StatusReader:
    """Asks the runtime. Calls about one pod run side by side."""

    def __init__(self, cri: Cri, files: PodFiles, logs: LogFiles, clock: Clock) -> None:
        self._cri = cri
        self._files = files
        self._logs = logs
        self._clock = clock
        self._ended: dict[PodUID, dict[ContainerID, ContainerStatus]] = {}

    async def list_pods(self) -> list[RuntimePod]:
        """All pods that the runtime has, with two calls."""
        sandboxes, containers = await both(self._cri.list_pod_sandboxes(), self._cri.list_containers(), "list-runtime")
        pods = convert.runtime_pods(sandboxes, containers)
        uids = {pod.uid for pod in pods}
        for uid in self._ended.keys() - uids:
            del self._ended[uid]
        return pods

    async def list_pod(self, uid: PodUID) -> RuntimePod | None:
        """One pod as `list_pods` has it; None if the runtime has nothing of it."""
        pods = convert.runtime_pods(*await self.rows(uid))
        return pods[0] if pods else None

    async def pod_status(self, ref: PodRef) -> PodRuntimeStatus:
        """Everything about one pod. What vanishes meanwhile counts as not there."""
        observed_at = self._clock.now()
        boxes, rows = await self.rows(ref.uid)
        ended = self._ended.get(ref.uid, {})
        fresh = [row for row in rows if row.id not in ended]
        sandboxes, statuses = await both(
            together((self._sandbox(SandboxID(box.id)) for box in boxes), "sandbox-status"),
            together((self._container(row) for row in fresh), "container-status"),
            "pod-status",
        )
        listed = {row.id for row in rows}
        containers = [status for status in ended.values() if status.id in listed]
        containers += [status for status in statuses if status is not None]
        self._remember(ref.uid, containers)
        return PodRuntimeStatus(
            ref=ref,
            sandboxes=convert.newest_first(s for s in sandboxes if s is not None),
            containers=convert.containers_newest_first(containers),
            observed_at=observed_at,
        )

    async def rows(self, uid: PodUID) -> tuple[list[pb.PodSandbox], list[pb.Container]]:
        """The rows of one pod in the runtime's lists."""
        selector = {POD_UID: uid}
        return await both(
            self._cri.list_pod_sandboxes(pb.PodSandboxFilter(label_selector=selector)),
            self._cri.list_containers(pb.ContainerFilter(label_selector=selector)),
            "list-pod",
        )

    async def _sandbox(self, sandbox: SandboxID) -> SandboxStatus | None:
        """One sandbox; None if it is gone."""
        try:
            reply = await self._cri.pod_sandbox_status(sandbox)
        except NotFound:
            return None
        return convert.sandbox_status(reply.status)

    def forget(self, uid: PodUID) -> None:
        """The pod is gone from the runtime."""
        self._ended.pop(uid, None)

    def _remember(self, uid: PodUID, containers: list[ContainerStatus]) -> None:
        ended = {c.id: c for c in containers if c.state is ContainerState.EXITED and c.finished_at}
        if ended:
            self._ended[uid] = ended
        else:
            self._ended.pop(uid, None)

    async def _container(self, row: pb.Container) -> ContainerStatus | None:
        try:
            reply = await self._cri.container_status(ContainerID(row.id))
        except NotFound:
            return None
        status = reply.status
        message = ""
        if status.state == pb.CONTAINER_EXITED:
            message = await self._message(status)
        return convert.container_status(status, SandboxID(row.pod_sandbox_id), message)

    async def _message(self, status: pb.ContainerStatus) -> str:
        """What a container that has ended shows; an error in reading it is told in its place."""
        noted = parse_container(status.labels, status.annotations)
        if noted is None:
            return status.message
        file = _message_file(status, noted)
        if file is None and not _wants_log(status, noted, None):
            return status.message
        return await asyncio.to_thread(self._read_message, status, noted, file)

    def _read_message(self, status: pb.ContainerStatus, noted: ParsedContainerLabels, file: str | None) -> str:
        content = tail = None
        try:
            if file is not None:
                # Only the name is taken from the runtime: the folder is known, and nothing outside it is read.
                content = read_tail(self._files.container(noted.ref.uid, noted.name), file, MAX_FILE_BYTES)
            if _wants_log(status, noted, content):
                path = container_log_path(noted.name, noted.restart_count)
                tail = read_tail(self._logs.pod_dir(noted.ref), path, LOG_TAIL_BYTES)
        except (OSError, PykubeletError) as error:
            _log.warning(
                "cannot read a termination message",
                extra={"pod": str(noted.ref), "container": noted.name, "error": str(error)},
            )
            content = f"Error on reading termination message: {error}".encode()
        return termination_message(status.message, content, tail)


def _wants_log(status: pb.ContainerStatus, noted: ParsedContainerLabels, content: bytes | None) -> bool:
    return wants_log(noted.termination_message_policy, status.exit_code, status.reason, content)


def _message_file(status: pb.ContainerStatus, noted: ParsedContainerLabels) -> str | None:
    """The name of the file that is mounted at the path where the container writes its message."""
    path = noted.termination_message_path
    if not path:
        return None
    inside = str(Path("/") / path)
    return next((Path(m.host_path).name for m in status.mounts if m.container_path == inside), None)

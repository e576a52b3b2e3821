"""Checks the logs of all containers periodically and rotates those that are too large."""

import asyncio
import logging
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, Protocol

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.errors import NotFound, PykubeletError, Transient
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.cri_messages.labels import CONTAINER_NAME, POD_UID, parse_container
from pykubelet.kubelet.actuate.cri_messages.names import uid_of_log_dir
from pykubelet.kubelet.actuate.logs import log_files
from pykubelet.kubelet.actuate.logs.log_types import LogPlace, RotationConfig
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)
_SURVEY: Final = "logs-survey"
_SURVEY_SECONDS: Final[Seconds] = 10.0
"""Timeout of the survey of all pods: if a directory does not respond, each pod is checked in its own thread."""


class Cri(Protocol):
    """CRI calls of log rotation."""

    async def list_containers(self, filter: pb.ContainerFilter | None = None) -> list[pb.Container]:
        """List the containers that match the filter."""

    async def reopen_container_log(self, container: ContainerID) -> None:
        """Make the runtime write to a new file of the old name."""


class LogRotation:
    """Rotates the logs of running containers; a failure affects one log, and is retried with back-off."""

    def __init__(self, *, cri: Cri, config: RotationConfig, clock: Clock) -> None:
        self._cri = cri
        self._config = config
        self._clock = clock
        self._free = asyncio.Semaphore(max(1, config.workers))
        self._pods = Guard("log-rotation.pods", clock.monotonic)
        self._logs = Guard("log-rotation.logs", clock.monotonic)
        self._busy: set[str] = set()
        """Log directories of pods that are being checked or rotated."""

    def reconfigure(self, config: RotationConfig) -> None:
        """Rotate by these settings from the next round on; rotations that wait keep their concurrency limit."""
        if config.workers != self._config.workers:
            self._free = asyncio.Semaphore(max(1, config.workers))
        self._config = config

    async def run(self) -> None:
        """Rotate logs until cancelled, unless rotation is off. A slow pod does not delay the others."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._clock.sleep(self._config.interval)
                if self._config.max_size >= 0:
                    await self._begin(group)

    async def look(self) -> None:
        """Check all logs once and rotate those that are due; return when all are done."""
        async with asyncio.TaskGroup() as group:
            await self._begin(group)

    async def _begin(self, group: asyncio.TaskGroup) -> None:
        root = self._config.root
        with self._pods.item(str(root)):
            pods = await blocking.call("logs", log_files.pods, root)
            idle = [pod for pod in self._pods.due(pods) if pod not in self._busy]
            for pod in await self._due_pods(idle):
                self._busy.add(pod)
                group.create_task(self._check_pod(pod), name=f"rotate-logs {pod}")

    async def _due_pods(self, pods: list[str]) -> list[str]:
        """Return the pods with logs to rotate, by one survey of all; all pods while the survey hangs."""
        if any(each.owner == _SURVEY for each in blocking.hung()):
            return pods
        try:
            return await blocking.call(_SURVEY, log_files.worth_a_look, self._config, pods, deadline=_SURVEY_SECONDS)
        except Transient:
            return pods

    async def _check_pod(self, pod: str) -> None:
        try:
            with self._pods.item(pod):
                owner = f"pod/{uid_of_log_dir(pod)}"
                places, failed = await blocking.call(owner, log_files.overgrown, self._config, pod)
                for container, error in failed.items():
                    self._logs.failed(f"{self._config.root}/{pod}/{container}", error)
                for place in places:
                    if self._logs.is_due(place.path):
                        await self._rotate_if_running(place)
        finally:
            self._busy.discard(pod)

    async def _rotate_if_running(self, place: LogPlace) -> None:
        async with self._free:
            with self._logs.item(place.path), suppress(NotFound):  # the container was removed, its log will be too
                container = await self._writer(place)
                if container is not None and place.attempt is not None:
                    await self._rotate(place, container)
                elif container is not None:  # its log was deleted, which would grow unseen
                    await self._cri.reopen_container_log(container)

    async def _writer(self, place: LogPlace) -> ContainerID | None:
        """Find the running container that writes to the log; without one (None) the log does not grow."""
        wanted = pb.ContainerFilter(
            state=pb.ContainerStateValue(state=pb.CONTAINER_RUNNING),
            label_selector={POD_UID: place.uid, CONTAINER_NAME: place.container},
        )
        for row in await self._cri.list_containers(wanted):
            parsed = parse_container(row.labels, row.annotations)
            if parsed is not None and place.attempt in (None, parsed.restart_count):
                return ContainerID(row.id)
        return None

    async def _rotate(self, place: LogPlace, container: ContainerID) -> None:
        owner = f"pod/{place.uid}"
        await blocking.call_to_end(owner, log_files.tidy, place, self._config.max_files)
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        rotated = await blocking.call_to_end(owner, log_files.put_aside, place, now)
        reopened = False
        try:
            await self._cri.reopen_container_log(container)
            reopened = True
        finally:
            if not reopened:  # without a file of its name, readers would miss the log
                await self._undo(place, rotated)
        _log.debug("log rotated", extra={"path": place.path, "id": container})

    async def _undo(self, place: LogPlace, rotated: str | None) -> None:
        if rotated is None:
            return
        try:
            await blocking.call_to_end(f"pod/{place.uid}", log_files.put_back, place, rotated)
        except (PykubeletError, OSError) as error:
            fields = {"path": place.path, "rotated": rotated, "error": str(error)}
            _log.error("rotated log not reopened: retrying in the next round", extra=fields)

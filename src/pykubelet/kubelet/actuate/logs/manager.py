"""Looks at the logs every now and then and rotates those that are due."""

import asyncio
import logging
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, Protocol

from pykubelet.base import blocking
from pykubelet.base.clock import Clock
from pykubelet.base.errors import NotFound, PykubeletError, Transient
from pykubelet.base.guard import Guard
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.criconfig.labels import CONTAINER_NAME, POD_UID, parse_container
from pykubelet.kubelet.actuate.criconfig.names import uid_of_log_dir
from pykubelet.kubelet.actuate.logs import files
from pykubelet.kubelet.actuate.logs.types import LogPlace, RotationConfig
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)
_SURVEY: Final = "logs-survey"
_SURVEY_SECONDS: Final[Seconds] = 10.0
"""One directory that does not respond keeps it from its end; then a thread of its own reads each pod's."""


class Cri(Protocol):
    """What rotation asks of the runtime."""

    async def list_containers(self, filter: pb.ContainerFilter | None = None) -> list[pb.Container]:
        """Containers that match."""

    async def reopen_container_log(self, container: ContainerID) -> None:
        """Write to a new file of the old name from now on."""


class LogRotation:
    """Rotates the logs of running containers; a failure concerns one log, and is retried with a growing delay."""

    def __init__(self, cri: Cri, config: RotationConfig, clock: Clock) -> None:
        self._cri = cri
        self._config = config
        self._clock = clock
        self._free = asyncio.Semaphore(max(1, config.workers))
        self._pods = Guard("log-rotation.pods", clock.monotonic)
        self._logs = Guard("log-rotation.logs", clock.monotonic)
        self._busy: set[str] = set()
        """Directories of pods that are looked at, or whose logs are being rotated."""

    async def run(self) -> None:
        """Until cancelled; returns at once if rotation is turned off. A pod that takes long holds up no other."""
        if self._config.max_size < 0:
            return
        async with asyncio.TaskGroup() as group:
            while True:
                await self._clock.sleep(self._config.interval)
                await self._begin(group)

    async def look(self) -> None:
        """One round over all logs, to its end."""
        async with asyncio.TaskGroup() as group:
            await self._begin(group)

    async def _begin(self, group: asyncio.TaskGroup) -> None:
        root = self._config.root
        with self._pods.item(str(root)):
            pods = await blocking.call("logs", files.pods, root)
            idle = [pod for pod in self._pods.due(pods) if pod not in self._busy]
            for pod in await self._worth_a_look(idle):
                self._busy.add(pod)
                group.create_task(self._look_at(pod), name=f"rotate-logs {pod}")

    async def _worth_a_look(self, pods: list[str]) -> list[str]:
        """Those with something to do, found by one call for all; while that one hangs, all of them."""
        if any(each.owner == _SURVEY for each in blocking.hung()):
            return pods
        try:
            return await blocking.call(_SURVEY, files.worth_a_look, self._config, pods, deadline=_SURVEY_SECONDS)
        except Transient:
            return pods

    async def _look_at(self, pod: str) -> None:
        try:
            with self._pods.item(pod):
                owner = f"pod/{uid_of_log_dir(pod)}"
                places, failed = await blocking.call(owner, files.overgrown, self._config, pod)
                for container, error in failed.items():
                    self._logs.failed(f"{self._config.root}/{pod}/{container}", error)
                for place in places:
                    if self._logs.is_due(place.path):
                        await self._take(place)
        finally:
            self._busy.discard(pod)

    async def _take(self, place: LogPlace) -> None:
        async with self._free:
            with self._logs.item(place.path), suppress(NotFound):  # gone meanwhile, and its log will follow
                container = await self._writer(place)
                if container is not None:
                    await self._rotate(place, container)

    async def _writer(self, place: LogPlace) -> ContainerID | None:
        """The container that writes there; None if it does not run, since then the log grows no more."""
        wanted = pb.ContainerFilter(
            state=pb.ContainerStateValue(state=pb.CONTAINER_RUNNING),
            label_selector={POD_UID: place.uid, CONTAINER_NAME: place.container},
        )
        for row in await self._cri.list_containers(wanted):
            parsed = parse_container(row.labels, row.annotations)
            if parsed is not None and parsed.restart_count == place.attempt:
                return ContainerID(row.id)
        return None

    async def _rotate(self, place: LogPlace, container: ContainerID) -> None:
        owner = f"pod/{place.uid}"
        await blocking.call_to_end(owner, files.tidy, place, self._config.max_files)
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        rotated = await blocking.call_to_end(owner, files.put_aside, place, now)
        reopened = False
        try:
            await self._cri.reopen_container_log(container)
            reopened = True
        finally:
            if not reopened:  # whatever it was: without a file of its name the log would be lost to readers
                await self._undo(place, rotated)
        _log.debug("log rotated", extra={"path": place.path, "id": container})

    async def _undo(self, place: LogPlace, rotated: str | None) -> None:
        if rotated is None:
            return
        try:
            await blocking.call_to_end(f"pod/{place.uid}", files.put_back, place, rotated)
        except (PykubeletError, OSError) as error:
            fields = {"path": place.path, "rotated": rotated, "error": str(error)}
            _log.error("log left under its rotated name; the next round restores it", extra=fields)

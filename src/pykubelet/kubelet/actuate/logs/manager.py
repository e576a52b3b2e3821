"""Looks at the logs every now and then and rotates those that are due."""

import asyncio
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from pykubelet.base.clock import Clock
from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.base.threads import to_its_end
from pykubelet.kubelet.actuate.criconfig.labels import CONTAINER_NAME, POD_UID, parse_container
from pykubelet.kubelet.actuate.logs import files
from pykubelet.kubelet.actuate.logs.types import LogPlace, RotationConfig
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)


class Cri(Protocol):
    """What rotation asks of the runtime."""

    async def list_containers(self, filter: pb.ContainerFilter | None = None) -> list[pb.Container]:
        """Containers that match."""

    async def reopen_container_log(self, container: ContainerID) -> None:
        """Write to a new file of the old name from now on."""


class LogRotation:
    """Rotates the logs of running containers; a failure concerns one log, and is tried again at the next look."""

    def __init__(self, cri: Cri, config: RotationConfig, clock: Clock) -> None:
        self._cri = cri
        self._config = config
        self._clock = clock
        self._free = asyncio.Semaphore(max(1, config.workers))

    async def run(self) -> None:
        """Until cancelled; returns at once if rotation is turned off."""
        if self._config.max_size < 0:
            return
        while True:
            await self._clock.sleep(self._config.interval)
            await self.look()

    async def look(self) -> None:
        """One round over all logs."""
        try:
            due = await asyncio.to_thread(files.overgrown, self._config)
        except OSError as error:
            _log.warning("logs not looked at", extra={"path": str(self._config.root), "error": str(error)})
            return
        async with asyncio.TaskGroup() as group:
            for place in due:
                group.create_task(self._take(place), name=f"rotate-log {place.uid} {place.container}")

    async def _take(self, place: LogPlace) -> None:
        async with self._free:
            try:
                container = await self._writer(place)
                if container is not None:
                    await self._rotate(place, container)
            except NotFound:
                return  # gone meanwhile, and its log will follow
            except (PykubeletError, OSError) as error:
                fields = {"path": str(place.folder / place.name), "error": str(error)}
                _log.warning("log not rotated, will be tried again", extra=fields)

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
        await to_its_end(files.tidy, place, self._config.max_files)
        stamp = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y%m%d-%H%M%S")
        rotated = await to_its_end(files.put_aside, place, stamp)
        reopened = False
        try:
            await self._cri.reopen_container_log(container)
            reopened = True
        finally:
            if not reopened:  # whatever it was: without a file of its name the log would be lost to readers
                await self._undo(place, rotated)
        _log.debug("log rotated", extra={"path": str(place.folder / place.name), "id": container})

    async def _undo(self, place: LogPlace, rotated: Path | None) -> None:
        if rotated is None:
            return
        try:
            await to_its_end(files.put_back, place, rotated)
        except OSError as error:
            fields = {"path": str(rotated), "error": str(error)}
            _log.error("log left under its rotated name, the next look mends it", extra=fields)

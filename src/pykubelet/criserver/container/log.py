"""ReopenContainerLog."""

import logging
from pathlib import Path

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Conflict, PykubeletError, Transient
from pykubelet.base.units import Seconds
from pykubelet.criserver.conmon import NextLog, make_next_log, reopen_log
from pykubelet.criserver.container.container_interfaces import Directories
from pykubelet.criserver.container.state.table import ContainerTable
from pykubelet.criserver.types import ContainerID

_log = logging.getLogger(__name__)
_REOPEN: Seconds = 5.0
_ATTEMPTS = 3


class LogReopener:
    """Implementation of ReopenContainerLog."""

    def __init__(self, *, table: ContainerTable, directories: Directories, clock: Clock) -> None:
        self._table = table
        self._directories = directories
        self._clock = clock

    async def reopen(self, identity: str) -> None:
        """Make conmon reopen the log file after a rotation; returns when conmon has opened the new file.

        NotFound; Invalid: the log's name is too long; Permanent: the container is not running, or the directory of its
        log cannot be written; Transient: conmon did not reopen it in time, or a pod replaces the file each time.
        """
        container = self._table.running(identity)
        owner, path = f"container/{container.id}", Path(container.record.log_path)
        bundle = self._directories.bundle(container.id)
        if not path.name:
            await blocking.call(owner, reopen_log, bundle)
            return
        async with container.log_lock:
            for _ in range(_ATTEMPTS):
                try:
                    following = await blocking.call(owner, _request_reopen, path, bundle)
                    await self._wait(container.id, following)
                    return
                except Conflict as error:
                    # Again at once: until then conmon may write to a file of others.
                    _log.error(
                        "log of a container replaced: opening another one",
                        extra={"container": container.id, "path": str(path), "error": str(error)},
                    )
        raise Transient(f"container {container.id}: {path} was replaced each time that conmon reopened it")

    async def _wait(self, container: ContainerID, following: NextLog) -> None:
        deadline = self._clock.monotonic() + _REOPEN
        while not await blocking.call(f"container/{container}", following.is_in_place):
            if self._clock.monotonic() > deadline:
                raise Transient(f"container {container}: conmon did not reopen {following.log} within {_REOPEN:g} s")
            await self._clock.sleep(0.002)


def _request_reopen(log: Path, bundle: Path) -> NextLog:
    """Create the next log and make conmon open it. Blocks briefly; errors of both."""
    following = make_next_log(log)
    try:
        reopen_log(bundle)
    except PykubeletError:
        following.drop()
        raise
    return following

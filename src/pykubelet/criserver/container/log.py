"""ReopenContainerLog."""

from pathlib import Path

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Transient
from pykubelet.base.units import Seconds
from pykubelet.criserver.conmon import clear_log_place, reopen_log
from pykubelet.criserver.container.container_interfaces import Directories
from pykubelet.criserver.container.state.table import ContainerTable

_REOPEN: Seconds = 5.0


class LogReopener:
    """Implementation of ReopenContainerLog."""

    def __init__(self, *, table: ContainerTable, directories: Directories, clock: Clock) -> None:
        self._table = table
        self._directories = directories
        self._clock = clock

    async def reopen(self, identity: str) -> None:
        """Make conmon reopen the log file after a rotation; returns when the new file exists.

        NotFound; Permanent: the container is not running; Transient: conmon did not reopen it in time.
        """
        container = self._table.running(identity)
        owner, path = f"container/{container.id}", Path(container.record.log_path)
        if path.name:
            await blocking.call(owner, clear_log_place, path)
        await blocking.call(owner, reopen_log, self._directories.bundle(container.id))
        deadline = self._clock.monotonic() + _REOPEN
        while path.name and not await blocking.call(owner, path.exists):
            if self._clock.monotonic() > deadline:
                raise Transient(f"container {container.id}: conmon did not reopen {path} within {_REOPEN:g} s")
            await self._clock.sleep(0.002)

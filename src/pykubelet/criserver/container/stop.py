"""StopContainer: stop signal, grace period, SIGKILL. ``server/cri_calls/containers.py`` registers the call."""

import asyncio
import signal
from contextlib import suppress

from pykubelet.base.errors import NotFound, Transient
from pykubelet.base.units import Seconds
from pykubelet.criserver.container.processes.cleanup import Cleanup
from pykubelet.criserver.container.processes.prelaunch import Launcher
from pykubelet.criserver.container.state.container_state import Container
from pykubelet.criserver.container.state.table import ContainerTable
from pykubelet.criserver.spec.signals import signal_number
from pykubelet.criserver.types import ContainerPhase

_KILLED: Seconds = 30.0
_STOPPED = "it was stopped meanwhile"


class ContainerStopper:
    """Ends containers, for StopContainer and for the ends of their sandboxes."""

    def __init__(self, *, table: ContainerTable, launcher: Launcher, cleanup: Cleanup) -> None:
        self._table = table
        self._launcher = launcher
        self._cleanup = cleanup

    async def stop(self, identity: str, grace: Seconds) -> None:
        """Send the stop signal, and SIGKILL after ``grace`` seconds. No error if it is not running or missing.

        Transient: it does not end after SIGKILL.
        """
        container = self._table.find(identity)
        if container is not None:
            await self.end(container, grace, _STOPPED)

    async def end(self, container: Container, grace: Seconds, why: str) -> None:
        """Stop a container: afterwards it neither runs nor is being started. Idempotent.

        ``why``: the reason in the errors of creations and starts in progress, which are cancelled after ``grace``
        seconds. Transient: it does not end after SIGKILL.
        """
        await container.in_progress.settle(grace, why)
        if container.record.phase in (ContainerPhase.MAKING, ContainerPhase.CREATED):
            # The previous holder of the lock may have just started it; checked again under the lock.
            async with container.lock:
                if not container.running:
                    await self._launcher.undo(container)
        if container.running:
            runtime, task = self._launcher.runtime(container), self._launcher.task(container)
            with suppress(NotFound):  # it has just ended
                if grace > 0:
                    await runtime.signal(task, signal_number(container.record.stop_signal))
                    if await _ends_within(container, grace):
                        return
                container.killed = True
                await runtime.signal(task, signal.SIGKILL)
                await self._cleanup.kill(container)
        if container.running and not await _ends_within(container, _KILLED):
            raise Transient(f"container {container.id} hangs in the kernel: it does not end after SIGKILL")


async def _ends_within(container: Container, seconds: Seconds) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await container.ended.wait()
        return True
    except TimeoutError:
        return False

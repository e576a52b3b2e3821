"""Pre-launches containers before StartContainer: runs conmon and the OCI runtime's ``create``, but not the program.

A pre-launch begins as soon as a container is created, so that the start only has to start the program. Clients do not
notice it: a pre-launch that fails is undone, and the start launches again and reports the result. Removing, stopping or
updating the container, or its sandbox, first undoes the pre-launch. So does a timeout, since a waiting container uses
memory, and so does the next server, which recognizes by the FIFO that the program does not run.
"""

import asyncio
import logging
import os
from pathlib import Path

from pykubelet.base.concurrency.answer import answer_of
from pykubelet.base.concurrency.shield import shielded
from pykubelet.base.errors import PykubeletError
from pykubelet.base.units import Seconds
from pykubelet.criserver.conmon import LaunchedContainer
from pykubelet.criserver.container.container_interfaces import Directories, Sandboxes
from pykubelet.criserver.container.processes.cleanup import Cleanup
from pykubelet.criserver.container.state.container_state import Container
from pykubelet.criserver.processes import is_alive, reference
from pykubelet.criserver.runtimes import ContainerRuntime, Task, TaskStreams
from pykubelet.criserver.scope import ServerScope
from pykubelet.criserver.spec.cdi_request import asks_for_devices
from pykubelet.criserver.types import ContainerID, ContainerPhase, ProcessRef

_log = logging.getLogger(__name__)
_CONCURRENT = 2 * (os.cpu_count() or 1)
_HALT: Seconds = 5.0


class Launcher:
    """The launches of containers, and their pre-launches in progress or waiting for the start."""

    def __init__(
        self,
        *,
        sandboxes: Sandboxes,
        directories: Directories,
        cleanup: Cleanup,
        scope: ServerScope,
        timeout: Seconds,
    ) -> None:
        """``timeout``: how long a pre-launched container waits for its start before the launch is undone."""
        self._sandboxes = sandboxes
        self._directories = directories
        self._cleanup = cleanup
        self._scope = scope
        self._timeout = timeout
        self._prelaunches: dict[ContainerID, _Prelaunch] = {}
        self._slots = asyncio.Semaphore(_CONCURRENT)

    def runtime(self, container: Container) -> ContainerRuntime:
        """The runtime of the container's sandbox."""
        return self._sandboxes.runtime(container.record.sandbox_id)

    def task(self, container: Container) -> Task:
        """The container as its runtime knows it."""
        return container.task(self._directories.bundles)

    def begin(self, container: Container) -> None:
        """Begin to pre-launch a container, if it has no CDI devices and is not restored. Returns at once."""
        # Hooks of CDI devices may have effects, and must run at the start.
        # Restored processes run at once.
        if container.record.restore:
            return
        if self.runtime(container).supports_prelaunch and not asks_for_devices(container.config):
            prelaunch = self._prelaunches[container.id] = _Prelaunch()
            name = f"launch-{container.id[:13]}"
            prelaunch.task = self._scope.begin(lambda: self._prelaunch(container, prelaunch), name)

    async def take(self, container: Container) -> LaunchedContainer:
        """Return the pre-launched processes, or launch now. The caller holds the container's lock.

        Errors as of ``ContainerRuntime.create``; after an error the caller must undo the launch.
        """
        prelaunch = self._prelaunches.pop(container.id, None)
        if prelaunch is not None:
            prelaunch.claimed.set()
        if prelaunch is not None and prelaunch.begun:
            try:
                launched = await answer_of(prelaunch.result)
            except asyncio.CancelledError:
                # The call was cancelled: nothing may be created after the launch was undone.
                await shielded(prelaunch.halt)
                raise
            if launched is not None and is_alive(prelaunch.process):
                return launched
            await self._cleanup.undo_launch(container, self.runtime(container))
        return await self._launch(container)

    async def undo(self, container: Container) -> bool:
        """Undo a pre-launch; return whether there was one. The caller holds the container's lock."""
        prelaunch = self._prelaunches.pop(container.id, None)
        if prelaunch is None:
            return False
        prelaunch.claimed.set()
        if prelaunch.begun:
            # To its end: no other call knows of this launch any more.
            await shielded(lambda: self._undo(container, prelaunch))
        return True

    async def _undo(self, container: Container, prelaunch: "_Prelaunch") -> None:
        await asyncio.wait({prelaunch.result}, timeout=_HALT)
        if not prelaunch.result.done():
            await prelaunch.halt()
        await self._cleanup.undo_launch(container, self.runtime(container))

    def is_prelaunched(self, container: Container) -> bool:
        """Whether a pre-launch is in progress or waits for the start."""
        return container.id in self._prelaunches

    async def _launch(self, container: Container) -> LaunchedContainer:
        log, config = container.record.log_path, container.config
        container.launched = True
        streams = TaskStreams(
            log=Path(log) if log else None,
            terminal=config.tty,
            stdin=config.stdin,
            stdin_once=config.stdin_once,
        )
        return await self.runtime(container).create(self.task(container), streams)

    async def _prelaunch(self, container: Container, prelaunch: "_Prelaunch") -> None:
        try:
            await self._launch_and_wait(container, prelaunch)
        except Exception as error:
            # A task group would end the whole server over one launch; the start launches it again.
            extra = {"container": container.id, "error": repr(error)}
            _log.error("pre-launch failed: unexpected error", extra=extra, exc_info=error)
        finally:
            if not prelaunch.result.done():
                prelaunch.result.set_result(None)

    async def _launch_and_wait(self, container: Container, prelaunch: "_Prelaunch") -> None:
        try:
            async with self._slots:
                if prelaunch.claimed.is_set():
                    return  # the caller that claimed it launches it
                prelaunch.begun = True
                launched = await self._try_launch(container)
                prelaunch.process = reference(launched.pid) if launched else None
                prelaunch.result.set_result(launched)
            async with asyncio.timeout(self._timeout):
                await prelaunch.claimed.wait()
        except TimeoutError:
            await self._expire(container, prelaunch)
        except asyncio.CancelledError:
            if prelaunch.begun and not prelaunch.claimed.is_set():
                await shielded(lambda: self._undo_logged(container))
            raise

    async def _try_launch(self, container: Container) -> LaunchedContainer | None:
        """Launch; None: it failed, and StartContainer will launch again and report the error."""
        try:
            self._sandboxes.check_ready(container.record.sandbox_id)
            launched = await self._launch(container)
            if not (await self.runtime(container).found(self.task(container), monitored=True)).program_runs:
                return launched
        except (PykubeletError, OSError) as error:
            _log.debug(
                "pre-launch failed: StartContainer launches again",
                extra={"container": container.id, "error": str(error)},
            )
        # Undo now, not at the start: the next server must not conclude that the container has run.
        await self._undo_logged(container)
        return None

    async def _expire(self, container: Container, prelaunch: "_Prelaunch") -> None:
        async with container.lock:
            if not prelaunch.claimed.is_set() and container.record.phase is ContainerPhase.CREATED:
                self._prelaunches.pop(container.id, None)
                await self._undo_logged(container)

    async def _undo_logged(self, container: Container) -> None:
        try:
            await self._cleanup.undo_launch(container, self.runtime(container))
        except (PykubeletError, OSError) as error:
            _log.warning(
                "cannot undo a pre-launch: retrying at the next call",
                extra={"container": container.id, "error": str(error)},
            )


class _Prelaunch:
    """The pre-launch of one container."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.process: ProcessRef | None = None
        """The container's first process, which waits at the FIFO."""
        self.begun = False
        self.claimed = asyncio.Event()
        """Set when a caller has taken over the launch."""
        self.result: asyncio.Future[LaunchedContainer | None] = asyncio.get_running_loop().create_future()

    async def halt(self) -> None:
        """Cancel a launch in progress; nothing is created afterwards."""
        if self.task is not None and not self.result.done():
            self.task.cancel()
            await asyncio.wait({self.task})

"""Launches containers ahead of StartContainer: conmon and the OCI runtime's ``create``, but not the program.

They begin ahead of StartContainer, as soon as a container is created, so that the start only has to let the program
run. Nothing shows of it: what fails ahead is undone and tried again by the start, which tells how it went; who
removes, stops or changes the container, or its sandbox, undoes the launch first; so does time, since what waits to be
started takes memory; and so does the next server, which knows by its FIFO that the program does not run.
"""

import asyncio
import logging
import os
from pathlib import Path

from pykubelet.base.errors import PykubeletError
from pykubelet.base.shield import shielded
from pykubelet.base.units import Seconds
from pykubelet.criserver.conmon import Launch, Launched
from pykubelet.criserver.container.cleanup import Cleanup
from pykubelet.criserver.container.interfaces import ContainerDeps
from pykubelet.criserver.container.state import Container
from pykubelet.criserver.oci import OciRuntime
from pykubelet.criserver.processes import is_alive, reference
from pykubelet.criserver.tasks import begin
from pykubelet.criserver.types import ContainerID, ContainerPhase, ProcessRef

_log = logging.getLogger(__name__)
_AT_ONCE = 2 * (os.cpu_count() or 1)
_HALT: Seconds = 5.0


class Launcher:
    """Those of all containers, under way or waiting for their start."""

    def __init__(self, deps: ContainerDeps, cleanup: Cleanup) -> None:
        self._deps = deps
        self._cleanup = cleanup
        self._ahead: dict[ContainerID, _Ahead] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)

    def runtime(self, container: Container) -> OciRuntime:
        """The OCI runtime that the container's sandbox was made for."""
        return self._deps.runtimes[self._deps.sandboxes.handler(container.record.sandbox_id)]

    def begin(self, container: Container) -> None:
        """Launch it ahead, if that makes no difference to anybody. Returns at once."""
        # Hooks of devices may do more at the start, or count on being run then.
        if self.runtime(container).supports_prelaunch and not container.config.CDI_devices:
            ahead = self._ahead[container.id] = _Ahead()
            name = f"launch-{container.id[:13]}"
            ahead.task = begin(self._deps.tasks, lambda: self._launch_ahead(container, ahead), name)

    async def take(self, container: Container) -> Launched:
        """What was launched ahead, else what is launched now. The caller holds the container's lock.

        Errors as of ``Conmon.launch``; what is there then is the caller's to undo.
        """
        ahead = self._ahead.pop(container.id, None)
        if ahead is not None:
            ahead.taken.set()
        if ahead is not None and ahead.begun:
            try:
                launched = await asyncio.shield(ahead.made)
            except asyncio.CancelledError:
                # No call waits for what would still be made, and nothing may be made after the launch was undone.
                await shielded(ahead.halt)
                raise
            if launched is not None and is_alive(ahead.process):
                return launched
            await self._cleanup.undo_launch(container, self.runtime(container))
        return await self._launch(container)

    async def undo(self, container: Container) -> bool:
        """Take back what was launched ahead; whether there was anything. The caller holds the container's lock."""
        ahead = self._ahead.pop(container.id, None)
        if ahead is None:
            return False
        ahead.taken.set()
        if ahead.begun:
            await asyncio.wait({ahead.made}, timeout=_HALT)
            if not ahead.made.done():
                await ahead.halt()
            await self._cleanup.undo_launch(container, self.runtime(container))
        return True

    def ahead(self, container: Container) -> bool:
        """Whether it is being launched ahead, or waits for its start."""
        return container.id in self._ahead

    async def _launch(self, container: Container) -> Launched:
        record, config = container.record, container.config
        container.launched = True
        return await self._deps.conmon.launch(
            Launch(
                container=record.id,
                bundle=self._deps.directories.bundles / record.id,
                log=Path(record.log_path) if record.log_path else None,
                runtime=self.runtime(container),
                terminal=config.tty,
                stdin=config.stdin,
                stdin_once=config.stdin_once,
            )
        )

    async def _launch_ahead(self, container: Container, ahead: "_Ahead") -> None:
        try:
            await self._launch_and_wait(container, ahead)
        except Exception as error:
            # A task group would end the whole server over one launch; the start launches it again.
            extra = {"container": container.id, "error": repr(error)}
            _log.error("container not launched ahead of its start", extra=extra, exc_info=error)
        finally:
            if not ahead.made.done():
                ahead.made.set_result(None)

    async def _launch_and_wait(self, container: Container, ahead: "_Ahead") -> None:
        try:
            async with self._turns:
                if ahead.taken.is_set():
                    return  # the caller that claimed it launches it
                ahead.begun = True
                launched = await self._made(container)
                ahead.process = reference(launched.pid) if launched else None
                ahead.made.set_result(launched)
            async with asyncio.timeout(self._deps.prelaunch_timeout):
                await ahead.taken.wait()
        except TimeoutError:
            await self._expire(container, ahead)
        except asyncio.CancelledError:
            if ahead.begun and not ahead.taken.is_set():
                await shielded(lambda: self._quietly_undone(container))
            raise

    async def _made(self, container: Container) -> Launched | None:
        """None when it failed: the start will tell."""
        try:
            self._deps.sandboxes.view(container.record.sandbox_id)
            launched = await self._launch(container)
            if self.runtime(container).is_waiting(container.id):
                return launched
        except (PykubeletError, OSError) as error:
            _log.debug(
                "container not launched ahead of its start", extra={"container": container.id, "error": str(error)}
            )
        # Now, not at the start: the next server must not take it for one that has run.
        await self._quietly_undone(container)
        return None

    async def _expire(self, container: Container, ahead: "_Ahead") -> None:
        async with container.lock:
            if not ahead.taken.is_set() and container.record.phase is ContainerPhase.CREATED:
                self._ahead.pop(container.id, None)
                await self._quietly_undone(container)

    async def _quietly_undone(self, container: Container) -> None:
        try:
            await self._cleanup.undo_launch(container, self.runtime(container))
        except (PykubeletError, OSError) as error:
            _log.warning("a launch was not undone yet", extra={"container": container.id, "error": str(error)})


class _Ahead:
    """One container's."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.process: ProcessRef | None = None
        """The first process, which waits."""
        self.begun = False
        self.taken = asyncio.Event()
        """Somebody else minds it now."""
        self.made: asyncio.Future[Launched | None] = asyncio.get_running_loop().create_future()

    async def halt(self) -> None:
        """Cut the launch, if it goes on; nothing is made after this."""
        if self.task is not None and not self.made.done():
            self.task.cancel()
            await asyncio.wait({self.task})

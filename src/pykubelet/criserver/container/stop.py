"""StopContainer and RemoveContainer, also for all containers of a sandbox. All methods are idempotent."""

import asyncio
import signal
from collections.abc import Coroutine

from pykubelet.base.errors import NotFound, Transient
from pykubelet.base.units import Seconds
from pykubelet.criserver.container.cleanup import Cleanup, image_mounts
from pykubelet.criserver.container.decide import move
from pykubelet.criserver.container.interfaces import ContainerDeps
from pykubelet.criserver.container.prelaunch import Launcher
from pykubelet.criserver.container.registry import Registry
from pykubelet.criserver.container.state import Container
from pykubelet.criserver.events import EventKind
from pykubelet.criserver.processes import open_process
from pykubelet.criserver.spec.signals import signal_number
from pykubelet.criserver.types import ContainerPhase, SandboxID

_KILLED: Seconds = 30.0
_STOPPED = "it was stopped meanwhile"
_SANDBOX_STOPPED = "its sandbox was stopped meanwhile"
_REMOVED = "it was removed meanwhile"
_SANDBOX_REMOVED = "its sandbox was removed meanwhile"


class Stopper:
    """Implementation of StopContainer and RemoveContainer."""

    def __init__(self, deps: ContainerDeps, registry: Registry, launcher: Launcher, cleanup: Cleanup) -> None:
        self._deps = deps
        self._registry = registry
        self._launcher = launcher
        self._cleanup = cleanup

    async def stop(self, container: Container, grace: Seconds, why: str = _STOPPED) -> None:
        """Send the stop signal, and SIGKILL after ``grace`` seconds. Afterwards it neither runs nor is being started.

        Transient: it does not end after SIGKILL.
        """
        await container.in_progress.settle(grace, why)
        if container.record.phase in (ContainerPhase.MAKING, ContainerPhase.CREATED):
            # The previous holder of the lock may have just started it; checked again under the lock.
            async with container.lock:
                if not container.running:
                    await self._launcher.undo(container)
        process = open_process(container.record.process) if container.running else None
        if process is not None:
            with process:
                try:
                    if grace > 0:
                        process.send_signal(signal_number(container.record.stop_signal))
                        if await _ends_within(container, grace):
                            return
                    container.killed = True
                    process.send_signal(signal.SIGKILL)
                except NotFound:
                    pass  # it has just ended
        if container.running and not await _ends_within(container, _KILLED):
            raise Transient(f"container {container.id} hangs in the kernel: it does not end after SIGKILL")

    async def stop_all(self, sandbox: SandboxID) -> None:
        """Kill the containers of a sandbox that rejects new ones; creations and starts in progress are cancelled."""
        await _all_of([self._stop_in_sandbox(each) for each in self._registry.of_sandbox(sandbox)])

    async def remove(self, container: Container) -> None:
        """Remove a container; a running one is killed first."""
        await self._remove(container, alone=True)

    async def remove_all(self, sandbox: SandboxID) -> None:
        """Remove the containers of a sandbox in the removing phase; their records are deleted with the sandbox's."""
        await _all_of([self._remove(each, alone=False) for each in self._registry.of_sandbox(sandbox)])

    async def purge(self, container: Container) -> None:
        """Remove all resources and the record of a container that is being removed or created."""
        await self._take_away(container)
        await self._registry.forget(container)

    async def _stop_in_sandbox(self, container: Container) -> None:
        await self.stop(container, 0, _SANDBOX_STOPPED)
        if not container.running:
            # It cannot be started any more.
            await self._cleanup.release_mapped_mounts(container)

    async def _remove(self, container: Container, *, alone: bool) -> None:
        while container in self._registry:
            await self.stop(container, 0, _REMOVED if alone else _SANDBOX_REMOVED)
            async with container.lock:
                # It may have been started since; a container starts only once, so this loop ends.
                if not container.running and container in self._registry:
                    await self._remove_stopped(container, alone=alone)

    async def _remove_stopped(self, container: Container, *, alone: bool) -> None:
        was_made = container.record.phase is not ContainerPhase.MAKING
        removing = move(container.record, ContainerPhase.REMOVING)
        if alone:
            await self._registry.note(container, removing)
            await self.purge(container)
        else:
            container.record = removing
            await self._take_away(container)
            self._registry.drop(container)
        if was_made:
            self._registry.publish(container.record, EventKind.DELETED, self._registry.now())

    async def _take_away(self, container: Container) -> None:
        """Remove everything but its record."""
        await self._launcher.undo(container)
        if container.launched:
            await self._cleanup.undo_start(container, self._launcher.runtime(container))
        for name in image_mounts(container):
            await self._deps.images.release(name)
        await self._deps.images.release(container.id)
        await self._cleanup.remove_files(container)


async def _all_of(works: list[Coroutine[object, object, None]]) -> None:
    """Run all concurrently, each to its end; then raise the first error."""
    for outcome in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


async def _ends_within(container: Container, seconds: Seconds) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await container.ended.wait()
        return True
    except TimeoutError:
        return False

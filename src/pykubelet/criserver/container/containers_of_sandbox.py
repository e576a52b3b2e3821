"""Stops and removes the containers of a sandbox with it. All methods are idempotent."""

import asyncio
from collections.abc import Coroutine

from pykubelet.criserver.container.processes.cleanup import Cleanup
from pykubelet.criserver.container.remove import ContainerRemover
from pykubelet.criserver.container.state.container_state import Container
from pykubelet.criserver.container.state.table import ContainerTable
from pykubelet.criserver.container.stop import ContainerStopper
from pykubelet.criserver.types import SandboxID

_SANDBOX_STOPPED = "its sandbox was stopped meanwhile"


class ContainersOfSandbox:
    """Stops and removes the containers of a sandbox; a ``Containers`` of ``sandbox``."""

    def __init__(
        self, *, table: ContainerTable, stopper: ContainerStopper, remover: ContainerRemover, cleanup: Cleanup
    ) -> None:
        self._table = table
        self._stopper = stopper
        self._remover = remover
        self._cleanup = cleanup

    async def stop_all(self, sandbox: SandboxID) -> None:
        """Kill the containers of a sandbox concurrently; creations and starts in progress are cancelled.

        The sandbox must reject creations and starts already.
        """
        await _all_of([self._stop(each) for each in self._table.of_sandbox(sandbox)])

    async def remove_all(self, sandbox: SandboxID) -> None:
        """Remove the containers of a sandbox in the removing phase; their records are deleted with the sandbox's."""
        await _all_of([self._remover.discard(each, with_sandbox=True) for each in self._table.of_sandbox(sandbox)])

    async def _stop(self, container: Container) -> None:
        await self._stopper.end(container, 0, _SANDBOX_STOPPED)
        if not container.running:
            # It cannot be started any more.
            await self._cleanup.release_mapped_mounts(container)


async def _all_of(works: list[Coroutine[object, object, None]]) -> None:
    """Run all concurrently, each to its end; then raise the first error."""
    if len(works) == 1:
        await works[0]
        return
    for outcome in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome

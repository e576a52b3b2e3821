"""ExecSync, and the OCI process of a command that is run in a container."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import NotFound
from pykubelet.base.units import KIB, MIB, Seconds
from pykubelet.criserver.container.bundle import prepare
from pykubelet.criserver.container.container_interfaces import Directories, Sandboxes
from pykubelet.criserver.container.state.container_state import Container
from pykubelet.criserver.container.state.table import ContainerTable
from pykubelet.criserver.memory_shares import MemoryShares
from pykubelet.criserver.oci import ExecResult
from pykubelet.criserver.runtimes import ContainerRuntime, Task
from pykubelet.criserver.spec import build_exec

_TOTAL: Final = 192 * MIB
"""Output of all commands that run, of any number of probes and hooks."""
_LARGEST: Final = 16 * MIB - 64 * KIB
"""Output of one command: CRI's limit, and the response must fit into a gRPC message of 16 MiB."""
_SMALLEST: Final = 128 * KIB


class ContainerCommands:
    """Implementation of ExecSync; for Exec, the streaming server runs the process that is built here."""

    def __init__(self, *, table: ContainerTable, sandboxes: Sandboxes, directories: Directories) -> None:
        self._table = table
        self._sandboxes = sandboxes
        self._directories = directories
        self._outputs = MemoryShares(total=_TOTAL, smallest=_SMALLEST, largest=_LARGEST)

    async def execute(self, identity: str, command: list[str], timeout: Seconds) -> ExecResult:
        """Run a command in a container and wait for it. ProgramTimeout; Permanent: the container is not running.

        The more commands run, the less of their output is kept.
        """
        container = self._table.running(identity)
        process = await self.process(container, command)
        with self._outputs.reserve() as output:
            return await self.runtime(container).execute(self.task(container), process, timeout, output)

    async def process(self, container: Container, command: Sequence[str], terminal: bool = False) -> dict[str, object]:
        """Build the OCI process of an exec command. NotFound: the container was removed meanwhile."""
        try:
            spec = await self._read_bundle(container)
        except FileNotFoundError as error:
            why = "it was removed, or the machine was rebooted"
            raise NotFound(f"container {container.id} has no bundle: {why}") from error
        return build_exec(spec, command, terminal=terminal)

    def runtime(self, container: Container) -> ContainerRuntime:
        """The runtime that runs commands in this container."""
        return self._sandboxes.runtime(container.record.sandbox_id)

    def task(self, container: Container) -> Task:
        """The container as its runtime knows it."""
        return container.task(self._directories.bundles)

    async def spec(self, container: Container) -> dict[str, object]:
        """Read its OCI spec; empty when it is gone (after a reboot)."""
        with suppress(FileNotFoundError):
            return await self._read_bundle(container)
        return {}

    async def _read_bundle(self, container: Container) -> dict[str, object]:
        bundle = self._directories.bundle(container.id)
        return await blocking.call(f"container/{container.id}", prepare.read_bundle, bundle)

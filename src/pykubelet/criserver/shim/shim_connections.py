"""The connections to the shims of one handler: one for each sandbox, made again from the stored address."""

import asyncio
from pathlib import Path
from weakref import WeakValueDictionary

from pykubelet.base.concurrency import blocking
from pykubelet.criserver.shim.shim_files import TaskFiles
from pykubelet.criserver.shim.shim_program import Bootstrap
from pykubelet.criserver.shim.task_client import TaskClient
from pykubelet.criserver.shim.ttrpc_client import ShimGone, connect
from pykubelet.criserver.types import SandboxID


class ShimConnections:
    """The clients of shims."""

    def __init__(self, directory: Path) -> None:
        """``directory``: of the directories of all tasks."""
        self.directory = directory
        self._clients: dict[SandboxID, TaskClient] = {}
        self._connecting: WeakValueDictionary[SandboxID, asyncio.Lock] = WeakValueDictionary()
        """One lock for each sandbox that is connected to, as long as a call holds it or waits for it: a shim that does
        not accept connections delays no other."""

    async def open(self, sandbox: SandboxID, bootstrap: Bootstrap) -> TaskClient:
        """Connect to a shim that was just started. Errors as of ``connect``."""
        connection = await connect(bootstrap.path, f"the shim of sandbox {sandbox}")
        client = self._clients[sandbox] = TaskClient(connection, bootstrap.version)
        return client

    async def client(self, sandbox: SandboxID) -> TaskClient:
        """Return the client of a sandbox's shim. ShimGone: it has ended, or was not started."""
        found = self._clients.get(sandbox)
        if found is not None and found.connection.open:
            return found
        async with self._connecting.setdefault(sandbox, asyncio.Lock()):
            found = self._clients.get(sandbox)
            if found is not None and found.connection.open:
                return found
            note = await blocking.call(f"shim/{sandbox}", TaskFiles(self.directory / sandbox).shim)
            if note is None:
                raise ShimGone(f"the shim of sandbox {sandbox} was not started")
            return await self.open(sandbox, note.bootstrap)

    def drop(self, sandbox: SandboxID) -> None:
        """Close the connection to a sandbox's shim. Idempotent."""
        client = self._clients.pop(sandbox, None)
        if client is not None:
            client.connection.close()

    def close(self) -> None:
        """Close all connections; the shims go on."""
        for sandbox in tuple(self._clients):
            self.drop(sandbox)

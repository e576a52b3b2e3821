"""The parts of a sandbox: namespaces, files, network attachment, infra process."""

import asyncio

from pykubelet.base import blocking
from pykubelet.base.shield import shielded
from pykubelet.criserver.cni import AttachRequest
from pykubelet.criserver.netns import Kind
from pykubelet.criserver.sandbox.decide import attach_request, namespace_options, namespaces, needs_infra, own_network
from pykubelet.criserver.sandbox.files import SandboxFiles
from pykubelet.criserver.sandbox.infra import Infra
from pykubelet.criserver.sandbox.interfaces import SandboxDeps
from pykubelet.criserver.sandbox.state import Sandbox
from pykubelet.criserver.spec.userns import id_map
from pykubelet.criserver.types import ProcessRef, SandboxID, UserNamespace
from pykubelet.linux.system import hostname


class Parts:
    """Creation and paths of the parts of sandboxes."""

    def __init__(self, deps: SandboxDeps, infra: Infra) -> None:
        self._deps = deps
        self._infra = infra

    async def make(self, sandbox: Sandbox) -> tuple[tuple[str, ...], ProcessRef | None]:
        """Create all parts; return addresses and infra process. After an error the caller must undo the rest."""
        config, identity = sandbox.config, sandbox.id
        own_name = config.hostname or hostname()
        wanted = namespaces(config)
        await self._deps.namespaces.make(identity, wanted)
        await blocking.call_to_end(owner_of(sandbox), self.files(identity).make_directory, wanted.ids)
        # Independent of each other. When one fails, wait for the others before the caller undoes anything.
        ips = asyncio.ensure_future(self._attach(sandbox))
        infra = asyncio.ensure_future(self._start_infra(sandbox))
        make = self.files(identity).make
        files = asyncio.ensure_future(blocking.call_to_end(owner_of(sandbox), make, config, own_name))
        works = {ips, infra, files}
        try:
            await asyncio.wait(works, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            ips.cancel()  # it undoes its own work; no effect when it is done
            await shielded(lambda: asyncio.wait(works))
        failed = [error for work in (files, infra, ips) if not work.cancelled() and (error := work.exception())]
        if failed:
            raise failed[0]
        return ips.result(), infra.result()

    def namespace_paths(self, sandbox: Sandbox) -> dict[str, str]:
        """The paths of its pinned namespaces, by kind."""
        kinds = namespaces(sandbox.config).kinds
        return {kind.value: str(self._deps.namespaces.path(sandbox.id, kind)) for kind in kinds}

    def user_namespace(self, sandbox: Sandbox) -> UserNamespace | None:
        """The pod's own user namespace, if it has one."""
        ids = id_map(namespace_options(sandbox.config))
        if ids is None:
            return None
        return UserNamespace(str(self._deps.namespaces.path(sandbox.id, Kind.USER)), ids)

    def files(self, sandbox: SandboxID) -> SandboxFiles:
        """The files of a sandbox."""
        return SandboxFiles(self._deps.directories.sandboxes / sandbox)

    def attachment(self, sandbox: Sandbox) -> AttachRequest:
        """The request to attach the sandbox to the network."""
        netns = str(self._deps.namespaces.path(sandbox.id, Kind.NETWORK))
        return attach_request(sandbox.id, sandbox.config, netns)

    async def _attach(self, sandbox: Sandbox) -> tuple[str, ...]:
        if not own_network(sandbox.config):
            return ()
        return (await self._deps.network.attach(self.attachment(sandbox))).ips

    async def _start_infra(self, sandbox: Sandbox) -> ProcessRef | None:
        if not needs_infra(sandbox.config):
            return None
        return await self._infra.start(sandbox, self.namespace_paths(sandbox), self.user_namespace(sandbox))


def owner_of(sandbox: Sandbox) -> str:
    """The owner of blocking calls about a sandbox."""
    return f"sandbox/{sandbox.id}"

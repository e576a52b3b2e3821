"""RunPodSandbox: a record is stored before its effects, then namespaces, network, files and infra process are made."""

import asyncio
import logging
import secrets
from functools import partial

from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.shield import shielded
from pykubelet.base.errors import Permanent, PykubeletError
from pykubelet.criserver.event_hub import EventKind
from pykubelet.criserver.machine import Machine
from pykubelet.criserver.sandbox.attachments import Attachments
from pykubelet.criserver.sandbox.infra import Infra
from pykubelet.criserver.sandbox.layout import SandboxLayout, owner_of
from pykubelet.criserver.sandbox.plan.lifecycle import id_for_retry
from pykubelet.criserver.sandbox.plan.requests import name_of, namespaces
from pykubelet.criserver.sandbox.remove import SandboxRemover
from pykubelet.criserver.sandbox.state.records import SandboxRecords
from pykubelet.criserver.sandbox.state.sandbox_state import Sandbox
from pykubelet.criserver.sandbox.state.table import SandboxTable
from pykubelet.criserver.sandbox.watch import InfraWatcher
from pykubelet.criserver.spec.security.labels import LEVELS, choose_level
from pykubelet.criserver.types import ProcessRef, SandboxID, SandboxPhase, SandboxRecord, new_id, request_digest
from pykubelet.linux import system
from pykubelet.linux.system import hostname
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)


class SandboxRunner:
    """Implementation of RunPodSandbox."""

    def __init__(
        self,
        *,
        table: SandboxTable,
        records: SandboxRecords,
        layout: SandboxLayout,
        machine: Machine,
        attachments: Attachments,
        infra: Infra,
        remover: SandboxRemover,
        watcher: InfraWatcher,
    ) -> None:
        self._table = table
        self._records = records
        self._layout = layout
        self._machine = machine
        self._attachments = attachments
        self._infra = infra
        self._remover = remover
        self._watcher = watcher

    async def run(self, config: pb.PodSandboxConfig, handler: str) -> SandboxID:
        """Create and start a sandbox; a retry of a request gets the first one if that is ready.

        Errors: Invalid, Conflict (the name is taken), Transient (network), Permanent.
        """
        handler = self._machine.handlers.requested(handler)
        name = name_of(config)
        await self._clear(name)
        record = SandboxRecord(
            id=SandboxID(new_id()),
            name=name,
            handler=handler,
            config=config.SerializeToString(),
            created_at=self._records.creation_time(config.metadata.uid),
            request=request_digest(config),
            boot=system.boot_id(),
            selinux_level=self._selinux_level(config),
        )
        holder = self._table.holder(name)
        if holder is not None:
            return id_for_retry(holder.record, record)
        if namespaces(config).ids is not None and not self._machine.host.user_namespaces:
            raise Permanent(
                f"sandbox {record.name}: user namespaces are not supported here; they need Linux 5.19, unshare, "
                "user.max_user_namespaces above 0, and directories of this server that others can traverse"
            )
        sandbox = self._table.add(record)
        async with sandbox.lock:
            try:
                await self._records.insert(sandbox)
                ips, infra = await self._make(sandbox)
                await self._records.put(sandbox, sandbox.moved(SandboxPhase.READY, ips=ips, infra=infra))
            except BaseException:
                await shielded(lambda: self._undo(sandbox))
                raise
        self._watcher.watch(sandbox)
        for kind in (EventKind.CREATED, EventKind.STARTED):
            self._records.publish(sandbox, kind)
        return record.id

    def _selinux_level(self, config: pb.PodSandboxConfig) -> str:
        """The level of a new pod. No other call can take it: nothing is awaited until its record is in the table."""
        asked = config.linux.security_context.selinux_options
        used = {each.record.selinux_level for each in self._table}
        return choose_level(asked, self._machine.host, seed=secrets.randbelow(LEVELS), used=used)

    async def _clear(self, name: str) -> None:
        """Finish the removal of a sandbox that still holds the name because its removal failed."""
        for holder in self._table:
            if holder.record.name == name and holder.leftover:
                async with holder.lock:
                    await self._remover.undo(holder)

    async def _make(self, sandbox: Sandbox) -> tuple[tuple[str, ...], ProcessRef | None]:
        """Create all parts; return addresses and infra process. After an error the caller must undo the rest."""
        config, identity = sandbox.config, sandbox.id
        own_name = config.hostname or hostname()
        wanted, files = namespaces(config), self._layout.files(identity)
        await self._layout.namespaces.make(identity, wanted)
        if self._infra.needed(sandbox):  # its bundle is in the directory
            await blocking.call_to_end(owner_of(identity), files.make_directory, wanted.ids)
        # Independent of each other. When one fails, wait for the others before the caller undoes anything.
        ips = asyncio.ensure_future(self._attachments.attach(sandbox))
        infra = asyncio.ensure_future(self._start_infra(sandbox))
        make = partial(files.make, config, own_name, wanted.ids)
        written = asyncio.ensure_future(blocking.call_to_end(owner_of(identity), make))
        works = {ips, infra, written}
        try:
            await asyncio.wait(works, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            ips.cancel()  # it undoes its own work; no effect when it is done
            if not all(work.done() for work in works):
                await shielded(lambda: asyncio.wait(works))
        failed = [error for work in (written, infra, ips) if not work.cancelled() and (error := work.exception())]
        if failed:
            raise failed[0]
        return ips.result(), infra.result()

    async def _start_infra(self, sandbox: Sandbox) -> ProcessRef | None:
        if not self._infra.needed(sandbox):
            return None
        layout = self._layout
        return await self._infra.start(sandbox, layout.namespace_paths(sandbox), layout.user_namespace(sandbox))

    async def _undo(self, sandbox: Sandbox) -> None:
        try:
            await self._remover.undo(sandbox)
        except (PykubeletError, OSError) as error:
            # Retried by the next creation of this name, and by the next server.
            extra = {"sandbox": sandbox.id, "error": str(error)}
            _log.warning("cannot remove a sandbox whose creation failed: retrying later", extra=extra)

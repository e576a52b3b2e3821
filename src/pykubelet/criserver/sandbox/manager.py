"""The sandbox manager: run, stop, update, remove. A record is stored before its effects; every step is idempotent."""

import asyncio
import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from pykubelet.base import blocking
from pykubelet.base.errors import Invalid, NotFound, Permanent, PykubeletError
from pykubelet.base.shield import shielded
from pykubelet.base.supervise import supervise
from pykubelet.criserver.events import Event, EventKind
from pykubelet.criserver.netns import Kind
from pykubelet.criserver.oci import OciRuntime
from pykubelet.criserver.processes import is_alive, open_process
from pykubelet.criserver.sandbox.decide import (
    adopted_phase,
    id_for_retry,
    move,
    name_of,
    namespaces,
    own_network,
)
from pykubelet.criserver.sandbox.infra import Infra
from pykubelet.criserver.sandbox.interfaces import SandboxDeps
from pykubelet.criserver.sandbox.parts import Parts, owner_of
from pykubelet.criserver.sandbox.state import Sandbox
from pykubelet.criserver.spec import SandboxView
from pykubelet.criserver.tasks import begin
from pykubelet.criserver.types import (
    SandboxID,
    SandboxPhase,
    SandboxRecord,
    new_id,
    request_digest,
)
from pykubelet.linux import system
from pykubelet.linux.mountinfo import is_mount_point
from pykubelet.linux.system import hostname
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)


class SandboxManager:
    """The sandboxes of the server, and the calls on them."""

    def __init__(self, deps: SandboxDeps) -> None:
        self._deps = deps
        self._sandboxes: dict[SandboxID, Sandbox] = {}
        self._infra = Infra(deps)
        self._parts = Parts(deps, self._infra)
        self.leftovers = asyncio.Event()
        """Set when an address could not be released."""

    # Queries

    def all(self) -> Iterator[Sandbox]:
        """The sandboxes that clients may see."""
        return (each for each in tuple(self._sandboxes.values()) if each.visible)

    def find(self, sandbox: str) -> Sandbox | None:
        """Find a sandbox by its id or a unique prefix; None: unknown, or its creation is not finished."""
        found = self._sandboxes.get(SandboxID(sandbox))
        if found is None and sandbox:
            matches = [each for key, each in self._sandboxes.items() if key.startswith(sandbox)]
            found = matches[0] if len(matches) == 1 else None
        return None if found is None or found.record.phase is SandboxPhase.MAKING else found

    def get(self, sandbox: str) -> Sandbox:
        """Find a sandbox like ``find``. NotFound."""
        found = self.find(sandbox)
        if found is None:
            raise NotFound(f"sandbox {sandbox!r} does not exist")
        return found

    def view(self, sandbox: SandboxID) -> SandboxView:
        """Return what a container needs of its sandbox. NotFound; Permanent: it is not ready or is being stopped."""
        found = self.get(sandbox)
        if not found.ready:
            raise Permanent(f"sandbox {sandbox} is not ready")
        if found.stopping:
            raise Permanent(f"sandbox {sandbox} is being stopped")
        files = self._parts.files(found.id)
        return SandboxView(
            hostname=found.config.hostname or hostname(),
            config=found.config,
            namespaces=self._parts.namespace_paths(found),
            resolv_conf=str(files.resolv_conf),
            hosts=str(files.hosts),
            hostname_file=str(files.hostname),
            shm=str(files.shm),
            user=self._parts.user_namespace(found),
        )

    def handler(self, sandbox: SandboxID) -> str:
        """The runtime handler of a sandbox; the default one if it is unknown or no longer configured."""
        found = self._sandboxes.get(sandbox)
        known = found is not None and found.record.handler in self._deps.runtimes
        return found.record.handler if found is not None and known else self._deps.default_handler

    def netns(self, sandbox: Sandbox) -> Path | None:
        """The path of its network namespace; None: it uses the node's."""
        return self._deps.namespaces.path(sandbox.id, Kind.NETWORK) if own_network(sandbox.config) else None

    def infra_pid(self, sandbox: SandboxID) -> int:
        """PID of its infra process, which holds the PID namespace; 0: it has no infra process."""
        infra = self.get(sandbox).record.infra
        return infra.pid if infra else 0

    # Calls

    async def run(self, config: pb.PodSandboxConfig, handler: str) -> SandboxID:
        """Create and start a sandbox; a retry of a request gets the first one if that is ready.

        Errors: Invalid, Conflict (the name is taken), Transient (network), Permanent.
        """
        handler = handler or self._deps.default_handler
        if handler not in self._deps.runtimes:
            known = ", ".join(sorted(self._deps.runtimes))
            raise Invalid(f"no runtime is configured for handler {handler!r}; configured handlers: {known}")
        name = name_of(config)
        await self._clear(name)
        record = SandboxRecord(
            id=SandboxID(new_id()),
            name=name,
            handler=handler,
            config=config.SerializeToString(),
            created_at=self._creation_time(config),
            request=request_digest(config),
            boot=system.boot_id(),
        )
        for holder in self._sandboxes.values():
            if holder.record.name == record.name:
                return id_for_retry(holder.record, record)
        if namespaces(config).ids is not None and not self._deps.host.user_namespaces:
            raise Permanent(
                f"sandbox {record.name}: user namespaces are not supported here; they need Linux 5.19, unshare, "
                "user.max_user_namespaces above 0, and directories of this server that others can traverse"
            )
        sandbox = self._sandboxes[record.id] = Sandbox(record)
        async with sandbox.lock:
            try:
                await self._deps.store.add_sandbox(record)
                ips, infra = await self._parts.make(sandbox)
                await self._put(sandbox, move(record, SandboxPhase.READY, ips=ips, infra=infra))
            except BaseException:
                await shielded(lambda: self._undo_creation(sandbox))
                raise
        self._watch_infra(sandbox)
        for kind in (EventKind.CREATED, EventKind.STARTED):
            self._publish(sandbox, kind)
        return record.id

    async def stop(self, identity: str) -> None:
        """Kill its containers and release its network. Idempotent; on an error, retry. No error if missing."""
        sandbox = self.find(identity)
        if sandbox is None:
            return
        async with sandbox.lock:
            if sandbox.record.phase is SandboxPhase.REMOVING:
                return
            was_ready = sandbox.ready
            await self._stop(sandbox)
        if was_ready:
            self._publish(sandbox, EventKind.STOPPED)

    async def remove(self, identity: str) -> None:
        """Stop and remove a sandbox with its containers; no error if it does not exist."""
        sandbox = self.find(identity)
        if sandbox is None:
            return
        async with sandbox.lock:
            if sandbox.id not in self._sandboxes:
                return
            if sandbox.record.phase is not SandboxPhase.REMOVING:
                await self._stop(sandbox)
            await self._note(sandbox, move(sandbox.record, SandboxPhase.REMOVING))
            await self._purge(sandbox)
        self._publish(sandbox, EventKind.DELETED)

    async def update(
        self, identity: str, overhead: pb.LinuxContainerResources, resources: pb.LinuxContainerResources
    ) -> None:
        """Record the pod's new resources (KEP-1287); the client has changed the pod's cgroup itself.

        NotFound; Permanent: it is not ready.
        """
        sandbox = self.get(identity)
        async with sandbox.lock:
            if not sandbox.ready:
                raise Permanent(f"sandbox {sandbox.id} is not ready")
            config = pb.PodSandboxConfig()
            config.CopyFrom(sandbox.config)
            config.linux.overhead.CopyFrom(overhead)
            config.linux.resources.CopyFrom(resources)
            await self._put(sandbox, replace(sandbox.record, config=config.SerializeToString()))

    async def network_problem(self, sandbox: Sandbox) -> str:
        """The problem that CNI CHECK reports for its attachment; empty: none, or it is not attached."""
        if not sandbox.ready or not own_network(sandbox.config):
            return ""
        try:
            await self._deps.network.check(sandbox.id)
        except PykubeletError as error:
            return str(error)
        return ""

    # For recovery

    def adopt(self, record: SandboxRecord) -> Sandbox:
        """Add a record from the store."""
        sandbox = self._sandboxes[record.id] = Sandbox(record)
        return sandbox

    def known(self) -> dict[SandboxID, Sandbox]:
        """All sandboxes, also those whose creation or removal is not finished."""
        return dict(self._sandboxes)

    async def undo(self, sandbox: Sandbox) -> None:
        """Remove all its resources and its record; not interrupted if the caller is cancelled."""

        async def work() -> None:
            await self._deps.containers.remove_all(sandbox.id)
            held = False
            try:
                await self._detach(sandbox)
            except PykubeletError as error:
                held = True
                _log.warning(
                    "cannot release a network address: retrying", extra={"sandbox": sandbox.id, "error": str(error)}
                )
            try:
                await self._purge(sandbox)
            finally:
                if held:
                    # Not earlier: an address is a leftover only when its sandbox has been removed.
                    self.leftovers.set()

        await shielded(work)

    async def verify(self, sandbox: Sandbox) -> None:
        """Check that a ready sandbox still has its namespaces, network and infra process, and watch it if so."""
        paths = self._parts.namespace_paths(sandbox).values()
        complete = await blocking.call(owner_of(sandbox), lambda: all(is_mount_point(path) for path in paths))
        # An interrupted stop on a full disk shows only in the records of the network.
        complete = complete and (not own_network(sandbox.config) or sandbox.id in self._deps.network.held())
        infra = sandbox.record.infra
        alive = infra is None or is_alive(infra)
        phase = adopted_phase(sandbox.record, boot=system.boot_id(), namespaces_there=complete, infra_alive=alive)
        if phase is SandboxPhase.STOPPED:
            extra = {"sandbox": sandbox.id, "boot": sandbox.record.boot}
            _log.warning("sandbox lost: reboot, or namespaces, network or infra process gone", extra=extra)
            await self._note(sandbox, move(sandbox.record, phase, ips=()))
        else:
            self._watch_infra(sandbox)

    # Implementation

    async def _clear(self, name: str) -> None:
        """Finish the removal of a sandbox that still holds the name because its removal failed."""
        for holder in tuple(self._sandboxes.values()):
            if holder.record.name == name and holder.leftover:
                async with holder.lock:
                    await self.undo(holder)

    async def _undo_creation(self, sandbox: Sandbox) -> None:
        try:
            await self.undo(sandbox)
        except (PykubeletError, OSError) as error:
            # Retried by the next creation of this name, and by the next server.
            extra = {"sandbox": sandbox.id, "error": str(error)}
            _log.warning("cannot remove a sandbox whose creation failed: retrying later", extra=extra)

    async def _detach(self, sandbox: Sandbox) -> None:
        await self._deps.network.detach(sandbox.id, self._parts.attachment(sandbox) if sandbox.record.ips else None)

    async def _stop(self, sandbox: Sandbox) -> None:
        sandbox.stopping = True
        try:
            await self._stop_parts(sandbox)
        finally:
            sandbox.stopping = False

    async def _stop_parts(self, sandbox: Sandbox) -> None:
        await self._deps.containers.stop_all(sandbox.id)
        if sandbox.released:
            return
        await self._infra.stop(sandbox.id, self._runtime(sandbox), sandbox.config)
        if sandbox.ready:
            await self._note(sandbox, move(sandbox.record, SandboxPhase.STOPPED))
        try:
            unmount = blocking.call_to_end(owner_of(sandbox), self._parts.files(sandbox.id).unmount)
            await asyncio.gather(self._detach(sandbox), unmount)
        except (PykubeletError, OSError):
            self.leftovers.set()
            raise
        if sandbox.record.ips:
            # Before its namespace is removed: with addresses in the record, plugins would be called for that namespace.
            await self._note(sandbox, move(sandbox.record, SandboxPhase.STOPPED, ips=()))
        await self._deps.namespaces.release(sandbox.id)
        sandbox.released = True

    async def _purge(self, sandbox: Sandbox) -> None:
        await self._deps.containers.remove_all(sandbox.id)
        if not sandbox.released:
            await self._infra.stop(sandbox.id, self._runtime(sandbox), sandbox.config)
            await self._deps.namespaces.release(sandbox.id)
        remove = partial(self._parts.files(sandbox.id).remove, mounted=not sandbox.released)
        await blocking.call_to_end(owner_of(sandbox), remove)
        await self._deps.store.delete_sandbox(sandbox.id)
        self._sandboxes.pop(sandbox.id, None)

    def _watch_infra(self, sandbox: Sandbox) -> None:
        if sandbox.record.infra is not None:
            name = f"infra-{sandbox.id[:13]}"
            watch = partial(supervise, name, lambda: self._infra_ended(sandbox), clock=self._deps.clock)
            begin(self._deps.tasks, watch, name)

    async def _infra_ended(self, sandbox: Sandbox) -> None:
        process = open_process(sandbox.record.infra)
        if process is not None:
            with process:
                await process.wait()
        async with sandbox.lock:
            if not sandbox.ready or sandbox.id not in self._sandboxes:
                return
            _log.warning("sandbox stopped: its infra process has ended", extra={"sandbox": sandbox.id})
            await self._note(sandbox, move(sandbox.record, SandboxPhase.STOPPED))
        self._publish(sandbox, EventKind.STOPPED)

    def _runtime(self, sandbox: Sandbox) -> OciRuntime:
        return self._deps.runtimes[self.handler(sandbox.id)]

    async def _put(self, sandbox: Sandbox, record: SandboxRecord) -> None:
        """Replace the record in the database, then in memory; not interrupted if the caller is cancelled."""

        async def work() -> None:
            await self._deps.store.put_sandbox(record)
            sandbox.record = record

        await shielded(work)

    async def _note(self, sandbox: Sandbox, record: SandboxRecord) -> None:
        """Replace the record; deferred if the disk is full, since the next server sees the change on the machine."""

        async def work() -> None:
            await self._deps.store.note_sandbox(record)
            sandbox.record = record

        await shielded(work)

    def _creation_time(self, config: pb.PodSandboxConfig) -> int:
        """The creation time of a new sandbox: now, but after the pod's others even if the clock was set back."""
        uid = config.metadata.uid
        earlier = (each.record.created_at for each in self._sandboxes.values() if each.config.metadata.uid == uid)
        return max((self._now(), *(at + 1 for at in earlier)))

    def _publish(self, sandbox: Sandbox, kind: EventKind) -> None:
        self._deps.events.publish(Event(sandbox.id, sandbox.id, kind, self._now()))

    def _now(self) -> int:
        return int(self._deps.clock.now() * 1e9)

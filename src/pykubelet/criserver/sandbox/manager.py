"""The life of sandboxes. The record is stored before anything is touched; every step can be repeated."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

from msgspec.structs import replace

from pykubelet.base.errors import Invalid, NotFound, Permanent, PykubeletError
from pykubelet.base.shield import shielded
from pykubelet.base.supervise import supervise
from pykubelet.criserver.cni import AttachRequest
from pykubelet.criserver.events import Event, EventKind
from pykubelet.criserver.netns import Kind
from pykubelet.criserver.oci import OciRuntime
from pykubelet.criserver.processes import is_alive, open_process
from pykubelet.criserver.sandbox.decide import (
    adopted_phase,
    attach_request,
    made_before,
    move,
    name_of,
    namespace_options,
    namespaces,
    needs_infra,
    own_network,
)
from pykubelet.criserver.sandbox.files import SandboxFiles
from pykubelet.criserver.sandbox.infra import Infra
from pykubelet.criserver.sandbox.ports import SandboxDeps
from pykubelet.criserver.sandbox.state import Sandbox
from pykubelet.criserver.spec import SandboxView
from pykubelet.criserver.spec.userns import id_map
from pykubelet.criserver.types import (
    ProcessRef,
    SandboxID,
    SandboxPhase,
    SandboxRecord,
    UserNamespace,
    new_id,
    request_digest,
)
from pykubelet.linux.mountinfo import is_mount_point
from pykubelet.linux.system import hostname
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)


class SandboxManager:
    """All sandboxes."""

    def __init__(self, deps: SandboxDeps) -> None:
        self._deps = deps
        self._sandboxes: dict[SandboxID, Sandbox] = {}
        self._infra = Infra(deps)
        self.leftovers = asyncio.Event()
        """Set when an address could not be taken back."""

    # What there is

    def all(self) -> Iterator[Sandbox]:
        """Every sandbox that is fully made."""
        hidden = (SandboxPhase.MAKING, SandboxPhase.REMOVING)
        return (each for each in self._sandboxes.values() if each.record.phase not in hidden)

    def get(self, sandbox: str) -> Sandbox:
        """One sandbox by its id or an unambiguous beginning of it. NotFound."""
        found = self._sandboxes.get(SandboxID(sandbox))
        if found is None and sandbox:
            matches = [each for key, each in self._sandboxes.items() if key.startswith(sandbox)]
            found = matches[0] if len(matches) == 1 else None
        if found is None or found.record.phase is SandboxPhase.MAKING:
            raise NotFound(f"sandbox {sandbox!r} does not exist")
        return found

    def view(self, sandbox: SandboxID) -> SandboxView:
        """What a container sees of its sandbox. NotFound; Permanent when it is not ready."""
        found = self.get(sandbox)
        if not found.ready:
            raise Permanent(f"sandbox {sandbox} is not ready")
        files = self._files(found.id)
        return SandboxView(
            hostname=found.config.hostname or hostname(),
            config=found.config,
            namespaces=self._namespace_paths(found),
            resolv_conf=str(files.resolv_conf),
            hosts=str(files.hosts),
            hostname_file=str(files.hostname),
            shm=str(files.shm),
            user=self._user_namespace(found),
        )

    def handler(self, sandbox: SandboxID) -> str:
        """The handler that it was made with; the default one when nobody remembers, or it is no longer configured."""
        found = self._sandboxes.get(sandbox)
        known = found is not None and found.record.handler in self._deps.runtimes
        return found.record.handler if found is not None and known else self._deps.default_handler

    def netns(self, sandbox: Sandbox) -> Path | None:
        """The file of its network namespace; None when it has the node's."""
        return self._deps.namespaces.path(sandbox.id, Kind.NETWORK) if own_network(sandbox.config) else None

    def infra_pid(self, sandbox: SandboxID) -> int:
        """The process that holds its PID namespace, 0 when there is none."""
        infra = self.get(sandbox).record.infra
        return infra.pid if infra else 0

    # Calls

    async def run(self, config: pb.PodSandboxConfig, handler: str) -> SandboxID:
        """Make a sandbox; a retry of a request gets what the first made, if that is ready.

        Errors: Invalid, Conflict (the name is taken), Transient (network), Permanent.
        """
        handler = handler or self._deps.default_handler
        if handler not in self._deps.runtimes:
            known = ", ".join(sorted(self._deps.runtimes))
            raise Invalid(f"no runtime is configured for handler {handler!r}; there are: {known}")
        record = SandboxRecord(
            id=SandboxID(new_id()),
            name=name_of(config),
            handler=handler,
            config=config.SerializeToString(),
            created_at=self._now(),
            request=request_digest(config),
        )
        for holder in self._sandboxes.values():
            if holder.record.name == record.name:
                return made_before(holder.record, record)
        if namespaces(config).ids is not None and not self._deps.host.user_namespaces:
            raise Permanent(
                f"sandbox {record.name}: user namespaces are not supported here; they need Linux 5.19, unshare, "
                "user.max_user_namespaces above 0, and folders of this server that others may walk through"
            )
        await self._deps.store.add_sandbox(record)
        sandbox = self._sandboxes[record.id] = Sandbox(record)
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self.undo, sandbox)
            ips, infra = await self._make(sandbox)
            await self._put(sandbox, move(record, SandboxPhase.READY, ips=ips, infra=infra))
            undo.pop_all()
        self._watch_infra(sandbox)
        for kind in (EventKind.CREATED, EventKind.STARTED):
            self._publish(sandbox, kind)
        return record.id

    async def stop(self, identity: str) -> None:
        """Kill its containers and free its network. Can be repeated; an error means that it must be.

        NotFound when there is no such sandbox.
        """
        sandbox = self.get(identity)
        async with sandbox.lock:
            if sandbox.record.phase is SandboxPhase.REMOVING:
                return
            was_ready = sandbox.ready
            await self._stop(sandbox)
        if was_ready:
            self._publish(sandbox, EventKind.STOPPED)

    async def remove(self, identity: str) -> None:
        """Remove it and its containers, stopping them first; done is done when it does not exist."""
        try:
            sandbox = self.get(identity)
        except NotFound:
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
        """Note what the pod is allowed now (KEP-1287); its cgroup is the client's, who has changed it already.

        NotFound; Permanent when it is not ready.
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
            sandbox.config = config

    async def network_problem(self, sandbox: Sandbox) -> str:
        """What the network's plugins miss of its attachment (CNI CHECK); empty when nothing, or it is not attached."""
        if not sandbox.ready or not own_network(sandbox.config):
            return ""
        try:
            await self._deps.network.check(sandbox.id)
        except PykubeletError as error:
            return str(error)
        return ""

    # For recovery

    def adopt(self, record: SandboxRecord) -> Sandbox:
        """Take in a record from the store."""
        sandbox = self._sandboxes[record.id] = Sandbox(record)
        return sandbox

    def known(self) -> dict[SandboxID, Sandbox]:
        """Every sandbox, also those that are half made or half removed."""
        return dict(self._sandboxes)

    async def undo(self, sandbox: Sandbox) -> None:
        """Take everything of it back and forget it, whatever happens to the caller meanwhile."""

        async def work() -> None:
            await self._deps.containers.remove_all(sandbox.id)
            try:
                await self._detach(sandbox)
            except PykubeletError as error:
                _log.warning("a network address is still held", extra={"sandbox": sandbox.id, "error": str(error)})
                self.leftovers.set()
            await self._purge(sandbox)

        await shielded(work)

    async def look_at(self, sandbox: Sandbox) -> None:
        """See whether a ready one is still whole, and follow it if it is."""
        paths = self._namespace_paths(sandbox).values()
        whole = await asyncio.to_thread(lambda: all(is_mount_point(path) for path in paths))
        infra = sandbox.record.infra
        phase = adopted_phase(sandbox.record, namespaces_there=whole, infra_alive=infra is None or is_alive(infra))
        if phase is SandboxPhase.STOPPED:
            _log.warning("a sandbox has lost its namespaces", extra={"sandbox": sandbox.id})
            await self._note(sandbox, move(sandbox.record, phase, ips=()))
        else:
            self._watch_infra(sandbox)

    # Inside

    async def _make(self, sandbox: Sandbox) -> tuple[tuple[str, ...], ProcessRef | None]:
        config, identity = sandbox.config, sandbox.id
        own_name = config.hostname or hostname()
        wanted = namespaces(config)
        await self._deps.namespaces.make(identity, wanted)
        await asyncio.to_thread(self._files(identity).make_folder, wanted.ids)
        # These need nothing of each other. When one fails the others have ended too before anything is undone.
        ips = asyncio.ensure_future(self._attach(sandbox))
        infra = asyncio.ensure_future(self._start_infra(sandbox))
        files = asyncio.ensure_future(asyncio.to_thread(self._files(identity).make, config, own_name))
        works = {ips, infra, files}
        try:
            await asyncio.wait(works, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            ips.cancel()  # it takes back what it has made; no effect when it is done
            await shielded(lambda: asyncio.wait(works))
        failed = [error for work in (files, infra, ips) if not work.cancelled() and (error := work.exception())]
        if failed:
            raise failed[0]
        return ips.result(), infra.result()

    async def _attach(self, sandbox: Sandbox) -> tuple[str, ...]:
        if not own_network(sandbox.config):
            return ()
        return (await self._deps.network.attach(self._attachment(sandbox))).ips

    async def _detach(self, sandbox: Sandbox) -> None:
        await self._deps.network.detach(sandbox.id, self._attachment(sandbox) if sandbox.record.ips else None)

    def _attachment(self, sandbox: Sandbox) -> AttachRequest:
        netns = str(self._deps.namespaces.path(sandbox.id, Kind.NETWORK))
        return attach_request(sandbox.id, sandbox.config, netns)

    async def _start_infra(self, sandbox: Sandbox) -> ProcessRef | None:
        if not needs_infra(sandbox.config):
            return None
        return await self._infra.start(sandbox, self._namespace_paths(sandbox), self._user_namespace(sandbox))

    async def _stop(self, sandbox: Sandbox) -> None:
        await self._deps.containers.stop_all(sandbox.id)
        if sandbox.released:
            return
        await self._infra.stop(sandbox.id, self._runtime(sandbox), sandbox.config)
        if sandbox.ready:
            await self._note(sandbox, move(sandbox.record, SandboxPhase.STOPPED))
        try:
            await asyncio.gather(self._detach(sandbox), asyncio.to_thread(self._files(sandbox.id).unmount))
        except PykubeletError:
            self.leftovers.set()
            raise
        if sandbox.record.ips:
            # Before its namespace goes: who finds an address noted asks the plugins to take it from there.
            await self._note(sandbox, move(sandbox.record, SandboxPhase.STOPPED, ips=()))
        await self._deps.namespaces.release(sandbox.id)
        sandbox.released = True

    async def _purge(self, sandbox: Sandbox) -> None:
        await self._deps.containers.remove_all(sandbox.id)
        if not sandbox.released:
            await self._infra.stop(sandbox.id, self._runtime(sandbox), sandbox.config)
            await self._deps.namespaces.release(sandbox.id)
        await asyncio.to_thread(self._files(sandbox.id).remove, mounted=not sandbox.released)
        await self._deps.store.delete_sandbox(sandbox.id)
        self._sandboxes.pop(sandbox.id, None)

    def _watch_infra(self, sandbox: Sandbox) -> None:
        if sandbox.record.infra is not None:
            name = f"infra-{sandbox.id[:13]}"
            watch = supervise(name, lambda: self._infra_ended(sandbox), clock=self._deps.clock)
            self._deps.tasks.create_task(watch, name=name)

    async def _infra_ended(self, sandbox: Sandbox) -> None:
        process = open_process(sandbox.record.infra)
        if process is not None:
            with process:
                await process.wait()
        async with sandbox.lock:
            if not sandbox.ready or sandbox.id not in self._sandboxes:
                return
            _log.warning("the infra process of a sandbox has ended", extra={"sandbox": sandbox.id})
            await self._note(sandbox, move(sandbox.record, SandboxPhase.STOPPED))
        self._publish(sandbox, EventKind.STOPPED)

    def _namespace_paths(self, sandbox: Sandbox) -> dict[str, str]:
        kinds = namespaces(sandbox.config).kinds
        return {kind.value: str(self._deps.namespaces.path(sandbox.id, kind)) for kind in kinds}

    def _user_namespace(self, sandbox: Sandbox) -> UserNamespace | None:
        ids = id_map(namespace_options(sandbox.config))
        if ids is None:
            return None
        return UserNamespace(str(self._deps.namespaces.path(sandbox.id, Kind.USER)), ids)

    def _runtime(self, sandbox: Sandbox) -> OciRuntime:
        return self._deps.runtimes[self.handler(sandbox.id)]

    def _files(self, sandbox: SandboxID) -> SandboxFiles:
        return SandboxFiles(self._deps.folders.sandboxes / sandbox)

    async def _put(self, sandbox: Sandbox, record: SandboxRecord) -> None:
        await self._deps.store.put_sandbox(record)
        sandbox.record = record

    async def _note(self, sandbox: Sandbox, record: SandboxRecord) -> None:
        """As ``_put``, for what a full disk must not hold up: the machine shows it to the next server."""
        await self._deps.store.note_sandbox(record)
        sandbox.record = record

    def _publish(self, sandbox: Sandbox, kind: EventKind) -> None:
        self._deps.events.publish(Event(sandbox.id, sandbox.id, kind, self._now()))

    def _now(self) -> int:
        return int(self._deps.clock.now() * 1e9)

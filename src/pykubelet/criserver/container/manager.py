"""The life of containers. Each change of phase is stored before the next effect; each step can be repeated."""

import asyncio
import logging
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from pykubelet.base.errors import Invalid, NotFound, Permanent, PykubeletError, Transient
from pykubelet.base.supervise import supervise
from pykubelet.base.units import Seconds
from pykubelet.criserver.conmon import Exit, read_exit, reopen_log
from pykubelet.criserver.container import prepare
from pykubelet.criserver.container.ahead import Launches
from pykubelet.criserver.container.cleanup import Cleanup, image_mounts, merge_limits, rewrite_limits
from pykubelet.criserver.container.create import Creator
from pykubelet.criserver.container.decide import START_FAILED, UNKNOWN_EXIT, made_before, move, oom_killed, reason
from pykubelet.criserver.container.ports import ContainerDeps
from pykubelet.criserver.container.state import Container
from pykubelet.criserver.events import Event, EventKind
from pykubelet.criserver.oci import ExecResult, OciRuntime
from pykubelet.criserver.processes import open_process, reference
from pykubelet.criserver.spec import build_exec, build_resources
from pykubelet.criserver.spec.signals import signal_number
from pykubelet.criserver.types import ContainerID, ContainerPhase, ContainerRecord, SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)
_KILLED: Seconds = 30.0
_REOPEN: Seconds = 5.0


class ContainerManager:
    """All containers."""

    def __init__(self, deps: ContainerDeps) -> None:
        self._deps = deps
        self._containers: dict[ContainerID, Container] = {}
        self._cleanup = Cleanup(deps.folders, deps.cgroups)
        self._creator = Creator(deps, self._pid_namespace)
        self._launches = Launches(deps, self._cleanup)

    # What there is

    def all(self) -> Iterator[Container]:
        """Every container that is fully made."""
        return (each for each in self._containers.values() if each.whole)

    def get(self, container: str) -> Container:
        """One container by its id or an unambiguous beginning of it. NotFound."""
        found = self._containers.get(ContainerID(container))
        if found is None and container:
            matches = [each for key, each in self._containers.items() if key.startswith(container)]
            found = matches[0] if len(matches) == 1 else None
        if found is None or found.record.phase is ContainerPhase.MAKING:
            raise NotFound(f"container {container!r} does not exist")
        return found

    def of_sandbox(self, sandbox: SandboxID) -> list[Container]:
        """The containers of a sandbox, oldest first."""
        mine = (each for each in self._containers.values() if each.record.sandbox_id == sandbox)
        return sorted(mine, key=lambda each: each.record.created_at)

    def rootfs_names(self) -> list[str]:
        """The names under which containers hold root file systems and mounted images."""
        names: list[str] = []
        for container in self._containers.values():
            names += [container.id, *image_mounts(container)]
        return names

    def bundle(self, container: ContainerID) -> Path:
        """The container's folder with its spec and conmon's files."""
        return self._deps.folders.bundles / container

    async def spec(self, container: Container) -> dict[str, object]:
        """Its OCI spec; empty when it has none any more (after a reboot)."""
        with suppress(FileNotFoundError):
            return await asyncio.to_thread(prepare.read_bundle, self.bundle(container.id))
        return {}

    def runtime_root(self, record: ContainerRecord) -> Path:
        """Where the OCI runtime keeps the container's state folder."""
        return self._deps.runtimes[self._deps.sandboxes.handler(record.sandbox_id)].root

    def runtime(self, container: Container) -> OciRuntime:
        """The OCI runtime that the container's sandbox was made for."""
        return self._launches.runtime(container)

    # Calls

    async def create(self, sandbox: SandboxID, config: pb.ContainerConfig) -> ContainerID:
        """Make a container; a retry of a request gets what the first made, if that has not been started.

        Errors: NotFound, Invalid, Conflict (the name is taken), Permanent, Transient.
        """
        record, image = self._creator.draft(sandbox, config)
        for holder in self.of_sandbox(sandbox):
            if holder.record.name == record.name:
                return made_before(holder.record, record.request)
        await self._deps.store.add_container(record)
        container = self._containers[record.id] = Container(record)
        try:
            user = await self._creator.make(record, config, image)
            await self._put(container, move(record, ContainerPhase.CREATED, user=user))
        except BaseException:
            del self._containers[record.id]
            await asyncio.shield(self._deps.store.delete_container(record.id))
            raise
        self._publish(container.record, EventKind.CREATED, record.created_at)
        self._launches.begin(container)
        return record.id

    async def start(self, identity: str) -> None:
        """Run it. Permanent: it is not in the created phase, or the OCI runtime refuses (noted as StartError)."""
        container = self.get(identity)
        async with container.lock:
            record = container.record
            if record.phase is not ContainerPhase.CREATED:
                raise Permanent(f"container {record.id} is {record.phase.value}; only a created one can be started")
            self._deps.sandboxes.view(record.sandbox_id)
            try:
                started = await self._run(container)
            except PykubeletError as error:
                await self._cleanup.undo_start(container, self.runtime(container))
                now = self._now()
                failed = {"exit_code": START_FAILED, "reason": "StartError", "message": str(error)}
                times = {"started_at": 0, "finished_at": now}
                await self._note(container, move(record, ContainerPhase.EXITED, **failed, **times))
                container.ended.set()
                self._publish(container.record, EventKind.STOPPED, now)
                raise
            except asyncio.CancelledError:
                await asyncio.shield(self._cleanup.undo_start(container, self.runtime(container)))
                raise
            await self._note(container, started)
            self._publish(started, EventKind.STARTED, started.started_at)
        self.watch(container)

    async def stop(self, identity: str, grace: Seconds) -> None:
        """Ask it to end, and kill it after ``grace`` seconds. Done when it does not run."""
        container = self.get(identity)
        if self._launches.ahead(container):
            async with container.lock:
                await self._launches.undo(container)
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
            raise Transient(f"container {container.id} does not die: it hangs in the kernel")

    async def remove(self, identity: str) -> None:
        """Remove it, killing it first if it runs; done is done when it does not exist."""
        try:
            container = self.get(identity)
        except NotFound:
            return
        await self._remove(container, alone=True)

    async def execute(self, identity: str, command: list[str], timeout: Seconds) -> ExecResult:
        """Run a command in it to its end. ProgramTimeout; Permanent when the container does not run."""
        container = self.running(identity)
        process = await self.exec_process(container, command)
        return await self.runtime(container).execute(container.id, process, timeout)

    async def exec_process(
        self, container: Container, command: Sequence[str], terminal: bool = False
    ) -> dict[str, object]:
        """The OCI process for another command in a container."""
        spec = await asyncio.to_thread(prepare.read_bundle, self.bundle(container.id))
        return build_exec(spec, command, terminal=terminal)

    async def update(self, identity: str, resources: pb.LinuxContainerResources) -> None:
        """Change its limits; fields that are zero stay as they are."""
        container = self.get(identity)
        async with container.lock:
            record = container.record
            config = pb.ContainerConfig.FromString(record.config)
            merge_limits(config.linux.resources, resources)
            wanted, launched = build_resources(config.linux.resources, self._deps.host), False
            match record.phase:
                case ContainerPhase.RUNNING:
                    await self.runtime(container).update(container.id, wanted)
                case ContainerPhase.CREATED:
                    launched = await self._launches.undo(container)
                    await asyncio.to_thread(rewrite_limits, self.bundle(container.id), wanted)
                case _:
                    raise Permanent(f"container {container.id} has ended; its limits cannot be changed")
            container.config = config
            await self._put(container, replace(record, config=config.SerializeToString()))
            if launched:
                self._launches.begin(container)

    async def reopen_log(self, identity: str) -> None:
        """Have its log file opened anew after a rotation; returns when the new file is there."""
        container = self.running(identity)
        await asyncio.to_thread(reopen_log, self.bundle(container.id))
        path = Path(container.record.log_path)
        deadline = self._deps.clock.monotonic() + _REOPEN
        while path.name and not path.exists():
            if self._deps.clock.monotonic() > deadline:
                raise Transient(f"container {container.id}: the monitor did not reopen {path}")
            await self._deps.clock.sleep(0.002)

    def running(self, identity: str) -> Container:
        """The container, which must run. NotFound, Permanent."""
        container = self.get(identity)
        if not container.running:
            raise Permanent(f"container {container.id} is {container.record.phase.value}, not running")
        return container

    # Ends

    def watch(self, container: Container) -> None:
        """Follow a running container to its end."""
        name = f"container-{container.id[:13]}"
        follow = supervise(name, lambda: self._follow(container), clock=self._deps.clock)
        self._deps.tasks.create_task(follow, name=name)

    async def _follow(self, container: Container) -> None:
        record = container.record
        for ref in (record.monitor, record.process):
            # The monitor ends after it has noted the exit; if it was killed, the container's own end counts.
            process = open_process(ref)
            if process is not None:
                with process:
                    await process.wait()
            noted = await asyncio.to_thread(self._read_exit, record.id)
            if noted is not None:
                break
        await self.finish(container, noted)

    async def finish(self, container: Container, noted: Exit | None) -> None:
        """Note how it ended (None: nobody knows) and free what only a running one needs."""
        async with container.lock:
            if container.record.phase not in (ContainerPhase.RUNNING, ContainerPhase.CREATED):
                return
            record = container.record
            if noted is None:
                code, at, why = UNKNOWN_EXIT, self._now(), "Unknown"
                message = "its monitor was killed or the machine restarted, so its exit code is not known"
            else:
                code, at, message = noted.code, max(noted.at, record.started_at), ""
                why = reason(code, await self._oom_killed(container, noted))
            ended = {"exit_code": code, "finished_at": at, "reason": why, "message": message}
            await self._note(container, move(record, ContainerPhase.EXITED, **ended))
            await self._cleanup.let_volumes_go(container)
            container.ended.set()
            self._publish(container.record, EventKind.STOPPED, at)
            try:
                await self._cleanup.delete(container, self.runtime(container))
                container.deleted = True
            except PykubeletError as error:
                _log.warning(
                    "an ended container was not cleaned up yet", extra={"container": record.id, "error": str(error)}
                )

    async def purge(self, container: Container) -> None:
        """Remove every trace of a container whose phase says that it is being removed. Can be repeated."""
        await self._take_away(container)
        await self._deps.store.delete_container(container.id)
        self._containers.pop(container.id, None)

    async def stop_all(self, sandbox: SandboxID) -> None:
        """Kill the containers of a sandbox, all at once."""
        async with asyncio.TaskGroup() as group:
            for container in self.of_sandbox(sandbox):
                if container.running or self._launches.ahead(container):
                    group.create_task(self.stop(container.id, 0), name=f"stop-{container.id[:13]}")
        for container in self.of_sandbox(sandbox):
            if not container.running:
                # It will not start any more.
                await self._cleanup.let_volumes_go(container)

    async def remove_all(self, sandbox: SandboxID) -> None:
        """Remove the containers of a sandbox whose record says already that it goes; with it go their records."""
        for container in self.of_sandbox(sandbox):
            if container.record.phase is not ContainerPhase.MAKING:
                await self._remove(container, alone=False)

    def adopt(self, record: ContainerRecord) -> Container:
        """Take in a record from the store."""
        container = self._containers[record.id] = Container(record)
        return container

    async def revert_start(self, container: Container) -> None:
        """Undo a start that was cut, so that it can be started again."""
        async with container.lock:
            await self._cleanup.undo_launch(container, self.runtime(container))

    async def put(self, container: Container, record: ContainerRecord) -> None:
        """Replace the record, in the store first."""
        await self._put(container, record)

    # Inside

    async def _remove(self, container: Container, *, alone: bool) -> None:
        await self.stop(container.id, 0)
        async with container.lock:
            if container.id not in self._containers:
                return
            removing = move(container.record, ContainerPhase.REMOVING)
            if alone:
                await self._note(container, removing)
                await self.purge(container)
            else:
                container.record = removing
                await self._take_away(container)
                self._containers.pop(container.id, None)
        self._publish(container.record, EventKind.DELETED, self._now())

    async def _take_away(self, container: Container) -> None:
        """All of it but its record."""
        await self._launches.undo(container)
        if not container.deleted:
            await self._cleanup.undo_start(container, self.runtime(container))
        for name in image_mounts(container):
            await self._deps.images.release(name)
        await self._deps.images.release(container.id)
        await self._cleanup.remove_files(container.id)

    async def _run(self, container: Container) -> ContainerRecord:
        record = container.record
        launched = await self._launches.take(container)
        process, monitor = reference(launched.pid), reference(launched.monitor)
        pod_oom_kills, now = self._deps.pod_oom_kills(record.cgroup), self._now()
        await self.runtime(container).start(record.id, None if container.config.CDI_devices else process)
        changes = {"process": process, "monitor": monitor, "started_at": now, "pod_oom_kills": pod_oom_kills}
        return move(record, ContainerPhase.RUNNING, **changes)

    async def _oom_killed(self, container: Container, noted: Exit) -> bool:
        record = container.record
        kills = await asyncio.to_thread(self._deps.oom_kills, record.cgroup)
        pod_kills = self._deps.pod_oom_kills(record.cgroup) - record.pod_oom_kills
        return oom_killed(noted.code, noted=noted.oom_killed, kills=kills, pod_kills=pod_kills, by_us=container.killed)

    def _read_exit(self, container: ContainerID) -> Exit | None:
        return read_exit(self._deps.folders.exits, self.bundle(container), container)

    def _pid_namespace(self, options: pb.NamespaceOption, sandbox: SandboxID) -> str | None:
        match options.pid:
            case pb.NODE:
                return None
            case pb.CONTAINER:
                return ""
            case pb.TARGET:
                target = self.running(options.target_id)
                if target.record.sandbox_id != sandbox or target.record.process is None:
                    raise Invalid(f"container {options.target_id} is not in this sandbox; its processes cannot be seen")
                return f"/proc/{target.record.process.pid}/ns/pid"
            case _:
                pid = self._deps.sandboxes.infra_pid(sandbox)
                if not pid:
                    raise Invalid("the sandbox was made without a shared PID namespace")
                return f"/proc/{pid}/ns/pid"

    async def _put(self, container: Container, record: ContainerRecord) -> None:
        await self._deps.store.put_container(record)
        container.record = record

    async def _note(self, container: Container, record: ContainerRecord) -> None:
        """As ``_put``, for what a full disk must not hold up: the machine shows it to the next server."""
        await self._deps.store.note_container(record)
        container.record = record

    def _publish(self, record: ContainerRecord, kind: EventKind, at: int) -> None:
        self._deps.events.publish(Event(record.id, record.sandbox_id, kind, at))

    def _now(self) -> int:
        return int(self._deps.clock.now() * 1e9)


async def _ends_within(container: Container, seconds: Seconds) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await container.ended.wait()
        return True
    except TimeoutError:
        return False

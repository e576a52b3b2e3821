"""The state of the fake runtime: names, addresses, processes, events."""

import asyncio
import hashlib
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from google.protobuf.message import Message
from grpc import StatusCode

from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.pb.containerd_events_pb2 import TaskExit, TaskStart
from pykubelet.pb.containerd_events_service_pb2 import Envelope
from pykubelet.testing.fake_cri.faults import RpcError
from pykubelet.testing.fake_cri.scripts import ScriptBook
from pykubelet.testing.fake_cri.state import FakeContainer, FakeImage, FakeSandbox, nanoseconds

_KILLED = 137
_START_ERROR = 128


@dataclass(frozen=True, slots=True)
class FakeCriOptions:
    """Features of the fake runtime."""

    supports_events: bool = True
    """Serve GetContainerEvents and fill `containers_statuses`."""
    containerd_events: bool = False
    """Serve containerd's native event stream."""
    exit_lag: Seconds = 0.0
    """Seconds for which CRI still reports "running" after the native stream has reported the exit of a process."""
    unsupported: frozenset[str] = frozenset()
    """Further calls to answer with UNIMPLEMENTED."""
    handlers: frozenset[str] = frozenset({"", "runc"})
    write_logs: bool = False
    """Write the container logs to disk, below `log_directory`."""


@dataclass(slots=True, eq=False)
class World:
    """The state that the groups of calls share."""

    clock: Clock
    options: FakeCriOptions
    tasks: asyncio.TaskGroup
    sandboxes: dict[str, FakeSandbox] = field(default_factory=dict)
    containers: dict[str, FakeContainer] = field(default_factory=dict)
    images: list[FakeImage] = field(default_factory=list)
    registry: list[FakeImage] = field(default_factory=list)
    scripts: ScriptBook = field(default_factory=ScriptBook)
    pod_cidr: str = ""
    conditions: dict[str, bool] = field(default_factory=lambda: {"RuntimeReady": True, "NetworkReady": True})
    cri_listeners: set["asyncio.Queue[pb.ContainerEventResponse | None]"] = field(default_factory=set)
    native_listeners: set["asyncio.Queue[Envelope | None]"] = field(default_factory=set)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    _addresses: "itertools.count[int]" = field(default_factory=lambda: itertools.count(2))

    def new_id(self, kind: str) -> str:
        """A new id: 64 hex digits, the same in every run."""
        return hashlib.sha256(f"{kind} {next(self._numbers)}".encode()).hexdigest()

    def new_address(self) -> str:
        """The next pod address of 10.88.0.0/16."""
        number = next(self._addresses)
        return f"10.88.{number // 256}.{number % 256}"

    def sandbox(self, sandbox_id: str) -> FakeSandbox:
        if sandbox_id not in self.sandboxes:
            raise RpcError(StatusCode.NOT_FOUND, f'sandbox "{sandbox_id}": not found')
        return self.sandboxes[sandbox_id]

    def container(self, container_id: str) -> FakeContainer:
        if container_id not in self.containers:
            raise RpcError(StatusCode.NOT_FOUND, f'container "{container_id}": not found')
        return self.containers[container_id]

    def image(self, name: str) -> FakeImage | None:
        return next((image for image in self.images if name in image.names()), None)

    def containers_of(self, sandbox: FakeSandbox) -> list[FakeContainer]:
        return [container for container in self.containers.values() if container.sandbox is sandbox]

    def add_sandbox(self, sandbox: FakeSandbox) -> None:
        """Add a sandbox if its name is free."""
        _reserve("sandbox", sandbox, self.sandboxes.values())
        self.sandboxes[sandbox.id] = sandbox
        self.emit(sandbox.id, sandbox, pb.CONTAINER_CREATED_EVENT)
        self.emit(sandbox.id, sandbox, pb.CONTAINER_STARTED_EVENT)

    def add_container(self, container: FakeContainer) -> None:
        """Add a container if its name is free."""
        _reserve("container", container, self.containers.values())
        self.containers[container.id] = container
        self.emit(container.id, container.sandbox, pb.CONTAINER_CREATED_EVENT)

    def stop_sandbox(self, sandbox: FakeSandbox) -> None:
        """Kill the containers of a sandbox and release its address."""
        for container in self.containers_of(sandbox):
            self.kill(container)
        if sandbox.ready:
            sandbox.ready = False
            self._emit_native("/tasks/exit", _exit_of(sandbox.id, _KILLED))
            self.emit(sandbox.id, sandbox, pb.CONTAINER_STOPPED_EVENT)

    def remove_sandbox(self, sandbox: FakeSandbox) -> None:
        """Remove a sandbox and its containers, running or not."""
        self.stop_sandbox(sandbox)
        for container in self.containers_of(sandbox):
            self.remove_container(container)
        del self.sandboxes[sandbox.id]
        self.emit(sandbox.id, sandbox, pb.CONTAINER_DELETED_EVENT)

    def remove_container(self, container: FakeContainer) -> None:
        """Remove a container, running or not."""
        self.kill(container)
        del self.containers[container.id]
        self.emit(container.id, container.sandbox, pb.CONTAINER_DELETED_EVENT)

    # -- processes

    def start(self, container: FakeContainer) -> None:
        """Start a container's process; it follows its script."""
        container.state = pb.CONTAINER_RUNNING
        container.started_at = nanoseconds(self.clock)
        self.write_log(container, container.script.output)
        self.emit(container.id, container.sandbox, pb.CONTAINER_STARTED_EVENT)
        self._emit_native("/tasks/start", TaskStart(container_id=container.id))
        script = container.script
        if script.exit_after is not None:
            self.end_later(container, script.exit_after, script.exit_code, script.reason)

    def fail_start(self, container: FakeContainer, message: str) -> None:
        """Record that a container's process could not be started."""
        container.message = message
        self._ended(container, _START_ERROR, "StartError")

    def ask_to_end(self, container: FakeContainer, grace: Seconds) -> None:
        """Stop a container: SIGTERM now, SIGKILL after the grace period."""
        script = container.script
        if script.stop_after is not None and script.stop_after <= grace and grace > 0:
            self.end_later(container, script.stop_after, script.stop_code)
        else:
            self.end_later(container, grace, _KILLED)

    def kill(self, container: FakeContainer) -> None:
        """Kill a container without the lag; a container that never started does not change."""
        if container.running:
            self._emit_native("/tasks/exit", _exit_of(container.id, _KILLED))
            self._ended(container, _KILLED, "Error")

    def end_later(self, container: FakeContainer, delay: Seconds, code: int, reason: str = "") -> None:
        """Make the process exit by itself after a delay; the first of several exits counts."""
        self._later(container, delay, lambda: self.end(container, code, reason))

    def end(self, container: FakeContainer, code: int, reason: str = "") -> None:
        """Make the process exit now."""
        if not container.running or container.ending:
            return
        container.ending = True
        self._emit_native("/tasks/exit", _exit_of(container.id, code))
        self._later(container, self.options.exit_lag, lambda: self._ended(container, code, reason))

    def _ended(self, container: FakeContainer, code: int, reason: str) -> None:
        """Report the exit of the process over CRI."""
        container.state = pb.CONTAINER_EXITED
        container.finished_at = nanoseconds(self.clock)
        container.exit_code = code
        container.reason = reason or ("Error" if code else "Completed")
        container.ended.set()
        self.emit(container.id, container.sandbox, pb.CONTAINER_STOPPED_EVENT)
        for task in container.tasks:
            task.cancel()

    def _later(self, container: FakeContainer, delay: Seconds, action: Callable[[], None]) -> None:
        if delay <= 0:
            action()
            return

        async def run() -> None:
            await self.clock.sleep(delay)
            container.tasks.discard(task)
            action()

        task = self.tasks.create_task(run(), name=f"fake container {container.path}")
        container.tasks.add(task)

    def write_log(self, container: FakeContainer, lines: Sequence[str]) -> None:
        """Append lines to a container's log, in CRI's log format; creates the file if necessary."""
        if not self.options.write_logs or not container.log_file:
            return
        path = Path(container.log_file)
        path.parent.mkdir(parents=True, exist_ok=True)
        stamp = datetime.fromtimestamp(self.clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
        with path.open("a") as log:
            log.writelines(f"{stamp} stdout F {line}\n" for line in lines)

    # -- events

    def emit(self, about: str, sandbox: FakeSandbox, kind: pb.ContainerEventType.ValueType) -> None:
        """Send a CRI event to all listeners; `about` is the id of a container or of the sandbox."""
        for queue in self.cri_listeners:
            queue.put_nowait(
                pb.ContainerEventResponse(
                    container_id=about,
                    container_event_type=kind,
                    created_at=nanoseconds(self.clock),
                    pod_sandbox_status=sandbox.status(),
                    containers_statuses=[container.status() for container in self.containers_of(sandbox)],
                )
            )

    def _emit_native(self, topic: str, event: Message) -> None:
        for queue in self.native_listeners:
            envelope = Envelope(namespace="k8s.io", topic=topic)
            envelope.timestamp.FromNanoseconds(nanoseconds(self.clock))
            envelope.event.type_url = event.DESCRIPTOR.full_name
            envelope.event.value = event.SerializeToString()
            queue.put_nowait(envelope)

    def drop_listeners(self) -> None:
        """End all event streams with UNAVAILABLE."""
        for queue in self.cri_listeners:
            queue.put_nowait(None)
        for native in self.native_listeners:
            native.put_nowait(None)


def _exit_of(task: str, code: int) -> TaskExit:
    """The event for the end of the first process of a container or sandbox."""
    return TaskExit(container_id=task, id=task, exit_status=code)


def _reserve(
    kind: str, new: FakeSandbox | FakeContainer, others: Iterable[FakeSandbox] | Iterable[FakeContainer]
) -> None:
    for other in others:
        if other.reserved_name == new.reserved_name:
            name = new.reserved_name
            raise RpcError(
                StatusCode.UNKNOWN,
                f'failed to reserve {kind} name "{name}": name "{name}" is reserved for "{other.id}"',
            )

"""The calls of the task API that the server uses, in the version that the shim speaks."""

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec
from google.protobuf.any_pb2 import Any
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from msgspec import Struct

from pykubelet.base.units import Seconds
from pykubelet.criserver.shim.ttrpc_client import TtrpcConnection
from pykubelet.pb import shim_task_pb2 as api

_R = TypeVar("_R", bound=Message)
NAMESPACE: Final = "k8s.io"
"""containerd's namespace of CRI: shims log it, and name directories after it."""
_SERVICES: Final = {2: "containerd.task.v2.Task", 3: "containerd.task.v3.Task"}
VERSIONS: Final = tuple(_SERVICES)
_CALL: Final[Seconds] = 60.0
_CREATE: Final[Seconds] = 120.0
"""A virtual machine boots meanwhile."""
_LARGEST_CODE: Final = 2**31 - 1
_UNKNOWN_CODE: Final = 255
_LATEST: Final = 2**63 - 1
_PREFIX: Final = "types.containerd.io/opencontainers/runtime-spec/1/"


class ProcessEnd(Struct, frozen=True):
    """The end of a process; ``at`` in nanoseconds since the epoch."""

    code: int
    at: int


class FifoPaths(Struct, frozen=True, kw_only=True):
    """Paths of the FIFOs of a process; empty: not connected."""

    stdin: str = ""
    stdout: str = ""
    stderr: str = ""
    terminal: bool = False


class TaskClient:
    """The task API of one shim. Errors as of ``TtrpcConnection.call``. ``exec_id`` empty: a task's first process."""

    def __init__(self, connection: TtrpcConnection, version: int) -> None:
        self.connection = connection
        self._service = _SERVICES[version]

    async def shim_pid(self, task: str) -> int:
        """The shim's process id."""
        return (await self._call("Connect", api.ConnectRequest(id=task), api.ConnectResponse)).shim_pid

    async def create(self, task: str, bundle: str, streams: FifoPaths, options: Any | None) -> int:
        """Create a task; its program waits. Returns the PID of its first process, or of its virtual machine."""
        request = api.CreateTaskRequest(
            id=task,
            bundle=bundle,
            terminal=streams.terminal,
            stdin=streams.stdin,
            stdout=streams.stdout,
            stderr=streams.stderr,
            options=options,
        )
        return (await self._call("Create", request, api.CreateTaskResponse, _CREATE)).pid

    async def start(self, task: str, exec_id: str = "") -> int:
        """Start the program; returns the PID."""
        return (await self._call("Start", api.StartRequest(id=task, exec_id=exec_id), api.StartResponse)).pid

    async def state(self, task: str, exec_id: str = "") -> api.StateResponse:
        """Read the state of a process."""
        return await self._call("State", api.StateRequest(id=task, exec_id=exec_id), api.StateResponse)

    async def wait(self, task: str, exec_id: str = "") -> ProcessEnd:
        """Wait for the end of a process."""
        reply = await self._call("Wait", api.WaitRequest(id=task, exec_id=exec_id), api.WaitResponse, None)
        return ended(reply.exit_status, reply.exited_at)

    async def kill(self, task: str, number: int, *, exec_id: str = "", everything: bool = False) -> None:
        """Send a signal to a process; ``everything``: to all processes of the container."""
        request = api.KillRequest(id=task, exec_id=exec_id, signal=number, all=everything)
        await self._call("Kill", request, api.Nothing)

    async def delete(self, task: str, exec_id: str = "") -> None:
        """Remove a process that has ended; its output is then written."""
        await self._call("Delete", api.DeleteRequest(id=task, exec_id=exec_id), api.DeleteResponse)

    async def exec(self, task: str, exec_id: str, process: Mapping[str, object], streams: FifoPaths) -> None:
        """Add a process (OCI form) to a task; ``start`` starts it."""
        request = api.ExecProcessRequest(
            id=task,
            exec_id=exec_id,
            terminal=streams.terminal,
            stdin=streams.stdin,
            stdout=streams.stdout,
            stderr=streams.stderr,
            spec=_any("Process", process),
        )
        await self._call("Exec", request, api.Nothing)

    async def resize(self, task: str, exec_id: str, width: int, height: int) -> None:
        """Set the size of a process's terminal."""
        request = api.ResizePtyRequest(id=task, exec_id=exec_id, width=width, height=height)
        await self._call("ResizePty", request, api.Nothing)

    async def close_stdin(self, task: str, exec_id: str = "") -> None:
        """Let a process's stdin end when nothing writes to its FIFO any more: until then the shim holds it open."""
        await self._call("CloseIO", api.CloseIORequest(id=task, exec_id=exec_id, stdin=True), api.Nothing)

    async def update(self, task: str, resources: Mapping[str, object]) -> None:
        """Change the limits of a task."""
        request = api.UpdateTaskRequest(id=task, resources=_any("LinuxResources", resources))
        await self._call("Update", request, api.Nothing)

    async def shutdown(self, task: str) -> None:
        """End the shim, unless it has further tasks."""
        await self._call("Shutdown", api.ShutdownRequest(id=task, now=True), api.Nothing)

    async def _call(self, method: str, request: Message, reply: type[_R], timeout: Seconds | None = _CALL) -> _R:
        return await self.connection.call(self._service, method, request, reply, namespace=NAMESPACE, timeout=timeout)


def ended(status: int, at: Timestamp) -> ProcessEnd:
    """The end of a process as a shim tells it; numbers that CRI cannot express become 255 and the next possible time.

    Go's zero time becomes 0.
    """
    code = status if status <= _LARGEST_CODE else _UNKNOWN_CODE
    return ProcessEnd(code, min(max(0, at.seconds * 1_000_000_000 + at.nanos), _LATEST))


def _any(kind: str, value: Mapping[str, object]) -> Any:
    return Any(type_url=f"{_PREFIX}{kind}", value=msgspec.json.encode(value))

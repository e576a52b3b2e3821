"""`CriClient`: all of CRI v1 as typed methods, over one channel to the runtime's socket.

Messages appear where a call takes or gives a whole object; where an id or a flag is enough, they are hidden.
Calls that a runtime may lack (RuntimeConfig, GetContainerEvents, metrics, UpdatePodSandboxResources, checkpoints)
fail with `Unsupported`, so that callers can fall back.
"""

from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Self, TypeVar

from google.protobuf.message import Message

from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.cri import calls
from pykubelet.kubelet.actuate.cri.caller import CriOptions, bad_reply
from pykubelet.kubelet.actuate.cri.containers import ContainerCalls
from pykubelet.kubelet.actuate.cri.images import ImageCalls
from pykubelet.kubelet.actuate.cri.sandboxes import SandboxCalls
from pykubelet.kubelet.actuate.cri.transport import GrpcTransport, StreamCall, Transport, socket_path
from pykubelet.kubelet.actuate.cri.usage import UsageCalls
from pykubelet.pb import runtime_v1_pb2 as pb

_Request = TypeVar("_Request", bound=Message)
_Reply = TypeVar("_Reply", bound=Message)

_KUBELET_API_VERSION = "0.1.0"
"""What the reference sends as its own version; runtimes ignore it."""

STATUS_SECONDS: Seconds = 10.0
"""How long a runtime that is well may take to say so."""


class CriClient(SandboxCalls, ContainerCalls, UsageCalls, ImageCalls):
    """The client. Safe to use from any number of tasks of one loop; close it at the end."""

    def __init__(self, transport: Transport, options: CriOptions | None = None) -> None:
        super().__init__(transport, options or CriOptions())

    @classmethod
    def connect(cls, endpoint: str, options: CriOptions | None = None) -> Self:
        """A client for a runtime at `unix:///PATH` or an absolute path; `Invalid` if it is neither.

        Must run inside the loop. Does not wait: the first call connects, and fails with `Transient` if nobody listens.
        """
        return cls(GrpcTransport(socket_path(endpoint)), options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Cancel the calls under way and close the channel. The runtime's containers do not notice."""
        await self._transport.close()

    async def version(self) -> pb.VersionResponse:
        """Names and versions of the runtime and its API."""
        reply = await self._call(calls.VERSION, pb.VersionRequest(version=_KUBELET_API_VERSION))
        if not (reply.version and reply.runtime_name and reply.runtime_version and reply.runtime_api_version):
            raise bad_reply(calls.VERSION, "", "an empty name or version")
        return reply

    async def status(self, *, verbose: bool = False) -> pb.StatusResponse:
        """The runtime's conditions, RuntimeReady and NetworkReady among them, its handlers and features.

        It has `STATUS_SECONDS` for the answer, so that one that hangs is known before calls of pods run out of time.
        """
        sooner = min(0.0, STATUS_SECONDS - self._request_timeout)
        reply = await self._call(calls.STATUS, pb.StatusRequest(verbose=verbose), extra=sooner)
        if not {"RuntimeReady", "NetworkReady"} <= {c.type for c in reply.status.conditions}:
            raise bad_reply(calls.STATUS, "", "no condition RuntimeReady or NetworkReady")
        return reply

    async def runtime_config(self) -> pb.RuntimeConfigResponse:
        """What the runtime dictates (the cgroup driver); `Unsupported` before containerd 2.0 and CRI-O 1.28."""
        return await self._call(calls.RUNTIME_CONFIG, pb.RuntimeConfigRequest())

    async def update_runtime_config(self, pod_cidr: str) -> None:
        """Tell the runtime the node's address ranges for pods, separated by commas."""
        config = pb.RuntimeConfig(network_config=pb.NetworkConfig(pod_cidr=pod_cidr))
        await self._call(calls.UPDATE_RUNTIME_CONFIG, pb.UpdateRuntimeConfigRequest(runtime_config=config), pod_cidr)

    def get_container_events(self) -> AsyncGenerator[pb.ContainerEventResponse, None]:
        """The runtime's events from now on, until it ends the stream; `Unsupported` at the first if it has none.

        There is no deadline. `cri.events.RuntimeEvents` also covers runtimes without this call.
        """
        return self.stream(calls.GET_CONTAINER_EVENTS, pb.GetEventsRequest())

    def stream(self, call: StreamCall[_Request, _Reply], request: _Request) -> AsyncGenerator[_Reply, None]:
        """Open a stream that is not part of CRI but served on the same socket, without a deadline."""
        return self._replies(call, request, None)

"""`CriClient`: all calls of CRI v1 as typed methods, over one channel to the runtime's socket.

Methods take and return protobuf messages for whole objects, and plain values where an id or a flag is enough.
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
"""Version that the Go kubelet sends; runtimes ignore it."""

STATUS_SECONDS: Seconds = 10.0
"""Deadline of Status calls, in seconds."""


class CriClient(SandboxCalls, ContainerCalls, UsageCalls, ImageCalls):
    """CRI client. Any number of tasks of one event loop may use it; it has to be closed."""

    def __init__(self, transport: Transport, options: CriOptions | None = None) -> None:
        super().__init__(transport, options or CriOptions())

    @classmethod
    def connect(cls, endpoint: str, options: CriOptions | None = None) -> Self:
        """Create a client for a runtime at `unix:///PATH` or an absolute path. Raises `Invalid` for other endpoints.

        Must run inside the loop. It does not wait: the first call connects, and raises `Transient` if it cannot.
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
        """Cancel calls in progress and close the channel. Containers are not affected."""
        await self._transport.close()

    async def version(self) -> pb.VersionResponse:
        """Names and versions of the runtime and its API."""
        reply = await self._call(calls.VERSION, pb.VersionRequest(version=_KUBELET_API_VERSION))
        if not (reply.version and reply.runtime_name and reply.runtime_version and reply.runtime_api_version):
            raise bad_reply(calls.VERSION, "", "an empty name or version")
        return reply

    async def status(self, *, verbose: bool = False) -> pb.StatusResponse:
        """The runtime's conditions, with RuntimeReady and NetworkReady, its handlers and features.

        The deadline is `STATUS_SECONDS`, so that a hung runtime is detected before calls of pods time out.
        """
        sooner = min(0.0, STATUS_SECONDS - self._request_timeout)
        reply = await self._call(calls.STATUS, pb.StatusRequest(verbose=verbose), extra=sooner)
        if not {"RuntimeReady", "NetworkReady"} <= {c.type for c in reply.status.conditions}:
            raise bad_reply(calls.STATUS, "", "no condition RuntimeReady or NetworkReady")
        return reply

    async def runtime_config(self) -> pb.RuntimeConfigResponse:
        """Settings of the runtime (the cgroup driver). Raises `Unsupported` before containerd 2.0 and CRI-O 1.28."""
        return await self._call(calls.RUNTIME_CONFIG, pb.RuntimeConfigRequest())

    async def update_runtime_config(self, pod_cidr: str) -> None:
        """Send the node's pod CIDRs, separated by commas, to the runtime."""
        config = pb.RuntimeConfig(network_config=pb.NetworkConfig(pod_cidr=pod_cidr))
        await self._call(calls.UPDATE_RUNTIME_CONFIG, pb.UpdateRuntimeConfigRequest(runtime_config=config), pod_cidr)

    def get_container_events(self) -> AsyncGenerator[pb.ContainerEventResponse, None]:
        """Yield the runtime's events until it ends the stream. Raises `Unsupported` if the runtime has none.

        There is no deadline. `cri.events.RuntimeEvents` also covers runtimes without this call.
        """
        return self.stream(calls.GET_CONTAINER_EVENTS, pb.GetEventsRequest())

    def stream(self, call: StreamCall[_Request, _Reply], request: _Request) -> AsyncGenerator[_Reply, None]:
        """Open a stream without a deadline; also for services on the same socket that are not part of CRI."""
        return self._replies(call, request, None)

"""Calls to the node service of one CSI driver, over its unix socket."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from google.protobuf.message import Message
from grpc import StatusCode
from grpc.aio import AioRpcError

from pykubelet.base.clock import SystemClock
from pykubelet.base.units import Bytes, Seconds
from pykubelet.kubelet.actuate.cri.transport import GrpcTransport, Transport, UnaryCall, socket_path
from pykubelet.kubelet.actuate.volumes.csi import decide
from pykubelet.kubelet.actuate.volumes.csi.errors import CsiFailed, code_name
from pykubelet.kubelet.actuate.volumes.csi.types import Capabilities, CsiVolume, VolumeRef
from pykubelet.kubelet.types.storage import DriverNodeInfo, VolumeSizes
from pykubelet.pb import csi_v1_pb2 as pb

_LEFT: Final = "the driver has left, or another one has come in its place"
CLOCK: Final = SystemClock()
"""For measuring only: deadlines are kept by gRPC."""
_NODE: Final = "csi.v1.Node"
_STATS_TIMEOUT: Final[Seconds] = 10.0
_STAGE: Final = UnaryCall(_NODE, "NodeStageVolume", "", pb.NodeStageVolumeRequest, pb.NodeStageVolumeResponse)
_UNSTAGE: Final = UnaryCall(_NODE, "NodeUnstageVolume", "", pb.NodeUnstageVolumeRequest, pb.NodeUnstageVolumeResponse)
_PUBLISH: Final = UnaryCall(_NODE, "NodePublishVolume", "", pb.NodePublishVolumeRequest, pb.NodePublishVolumeResponse)
_UNPUBLISH: Final = UnaryCall(
    _NODE, "NodeUnpublishVolume", "", pb.NodeUnpublishVolumeRequest, pb.NodeUnpublishVolumeResponse
)
_STATS: Final = UnaryCall(_NODE, "NodeGetVolumeStats", "", pb.NodeGetVolumeStatsRequest, pb.NodeGetVolumeStatsResponse)
_EXPAND: Final = UnaryCall(_NODE, "NodeExpandVolume", "", pb.NodeExpandVolumeRequest, pb.NodeExpandVolumeResponse)
_CAPABILITIES: Final = UnaryCall(
    _NODE, "NodeGetCapabilities", "", pb.NodeGetCapabilitiesRequest, pb.NodeGetCapabilitiesResponse
)
_INFO: Final = UnaryCall(_NODE, "NodeGetInfo", "", pb.NodeGetInfoRequest, pb.NodeGetInfoResponse)

_Request = TypeVar("_Request", bound=Message)
_Reply = TypeVar("_Reply", bound=Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How a volume is staged or published: what only the cluster knows."""

    group: int | None = None
    """The pod's fsGroup."""
    publish_context: Mapping[str, str] = field(default_factory=dict)
    """What the controller said when it attached the volume."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)


Observer = Callable[[str, str, Seconds], None]
"""Told after each call: its full name, the gRPC code, how long it took."""


@dataclass(frozen=True, slots=True)
class CallOptions:
    """How drivers are called."""

    timeout: Seconds
    observe: Observer = lambda method, code, seconds: None


class CsiClient:
    """One driver. To be closed. Raises :class:`CsiFailed`; cancelling a call tells the driver so."""

    def __init__(self, transport: Transport, options: CallOptions) -> None:
        self._transport = transport
        self._timeout = options.timeout
        self._observe = options.observe
        self._closed = False
        self._capabilities: Capabilities | None = None

    @classmethod
    def connect(cls, endpoint: str, options: CallOptions) -> "CsiClient":
        """The driver behind that socket; nothing is sent yet. Invalid for what is no unix socket."""
        return cls(GrpcTransport(socket_path(endpoint)), options)

    async def close(self) -> None:
        """Break calls off; they fail."""
        self._closed = True
        await self._transport.close()

    async def info(self) -> DriverNodeInfo:
        """What the driver says of this node."""
        reply = await self._call(_INFO, pb.NodeGetInfoRequest())
        return DriverNodeInfo(reply.node_id, reply.max_volumes_per_node, dict(reply.accessible_topology.segments))

    async def capabilities(self) -> Capabilities:
        """What the driver can do, asked once."""
        if self._capabilities is None:
            reply = await self._call(_CAPABILITIES, pb.NodeGetCapabilitiesRequest())
            self._capabilities = decide.capabilities_of(reply)
        return self._capabilities

    async def stage(self, volume: CsiVolume, path: str, use: Use) -> None:
        """Make the volume ready on the node, at that path. Repeatable."""
        request = pb.NodeStageVolumeRequest(
            volume_id=volume.ref.handle,
            publish_context=use.publish_context,
            staging_target_path=path,
            volume_capability=decide.capability(volume, await self.capabilities(), use.group),
            secrets=use.secrets,
            volume_context=use.attributes,
        )
        await self._call(_STAGE, request)

    async def unstage(self, ref: VolumeRef, path: str) -> None:
        """Undo :meth:`stage`. Repeatable."""
        await self._call(_UNSTAGE, pb.NodeUnstageVolumeRequest(volume_id=ref.handle, staging_target_path=path))

    async def publish(self, volume: CsiVolume, staged: str, target: str, use: Use) -> None:
        """Show the volume at ``target``; ``staged`` is empty if the driver does not stage. Repeatable."""
        request = pb.NodePublishVolumeRequest(
            volume_id=volume.ref.handle,
            publish_context=use.publish_context,
            staging_target_path=staged,
            target_path=target,
            volume_capability=decide.capability(volume, await self.capabilities(), use.group),
            readonly=volume.read_only,
            secrets=use.secrets,
            volume_context=use.attributes,
        )
        await self._call(_PUBLISH, request)

    async def unpublish(self, ref: VolumeRef, target: str) -> None:
        """Undo :meth:`publish`. Repeatable."""
        await self._call(_UNPUBLISH, pb.NodeUnpublishVolumeRequest(volume_id=ref.handle, target_path=target))

    async def expand(self, volume: CsiVolume, paths: tuple[str, str], size: Bytes, secrets: Mapping[str, str]) -> None:
        """Grow a published volume to that size; ``paths`` are where it is published and where it is staged."""
        capabilities = await self.capabilities()
        request = pb.NodeExpandVolumeRequest(
            volume_id=volume.ref.handle,
            volume_path=paths[0],
            staging_target_path=paths[1] if capabilities.stage else "",
            capacity_range=pb.CapacityRange(required_bytes=size),
            volume_capability=decide.capability(volume, capabilities, None),
            secrets=secrets,
        )
        await self._call(_EXPAND, request)

    async def sizes(self, ref: VolumeRef, path: str) -> VolumeSizes | None:
        """How full a published volume is; None if the driver does not tell."""
        if not (await self.capabilities()).stats:
            return None
        request = pb.NodeGetVolumeStatsRequest(volume_id=ref.handle, volume_path=path)
        return decide.sizes_of(await self._call(_STATS, request, _STATS_TIMEOUT))

    def _has_left(self) -> bool:
        return self._closed

    async def _call(
        self, call: UnaryCall[_Request, _Reply], request: _Request, timeout: Seconds | None = None
    ) -> _Reply:
        if self._has_left():
            raise CsiFailed(StatusCode.UNAVAILABLE, _LEFT)
        begun, code = CLOCK.monotonic(), StatusCode.CANCELLED
        try:
            reply = await self._transport.unary(call, request, timeout or self._timeout)
            code = StatusCode.OK
            return reply
        except AioRpcError as error:
            code = error.code()
            raise CsiFailed(code, error.details() or "") from error
        except asyncio.CancelledError as error:
            # gRPC also says so to the callers of a channel that is closed, of whom nobody was cancelled.
            task = asyncio.current_task()
            if self._has_left() and (task is None or not task.cancelling()):
                raise CsiFailed(code, _LEFT) from error
            raise
        finally:
            self._observe(call.path, code_name(code), CLOCK.monotonic() - begun)

"""Calls to the node service of one CSI driver, over its unix socket."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from google.protobuf.message import Message
from grpc import StatusCode
from grpc.aio import AioRpcError
from msgspec import Struct, field

from pykubelet.base.clock import SystemClock
from pykubelet.base.units import Bytes, Seconds
from pykubelet.kubelet.actuate.cri.transport import GrpcTransport, Transport, UnaryCall, socket_path
from pykubelet.kubelet.actuate.volumes.csi.csi_errors import CsiFailed, code_name
from pykubelet.kubelet.actuate.volumes.csi.csi_types import Capabilities, CsiVolume, VolumeRef
from pykubelet.kubelet.actuate.volumes.csi.plan import csi_rules
from pykubelet.kubelet.types.storage import DriverNodeInfo, VolumeSizes
from pykubelet.pb import csi_v1_pb2 as pb

_DRIVER_GONE: Final = "the driver has unregistered or was replaced"
CLOCK: Final = SystemClock()
"""Clock for measuring durations; deadlines are those of gRPC."""
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


class Use(Struct, frozen=True, kw_only=True):
    """Inputs from the cluster for staging and publishing a volume."""

    group: int | None = None
    """The pod's fsGroup."""
    publish_context: Mapping[str, str] = field(default_factory=dict)
    """Attachment metadata of the controller."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)


Observer = Callable[[str, str, Seconds], None]
"""Called after each call with its full name, the gRPC code and the duration."""


class CallOptions(Struct, frozen=True):
    """Options of calls to drivers."""

    timeout: Seconds
    observe: Observer = lambda method, code, seconds: None


class CsiClient:
    """Client of one driver; has to be closed. Calls raise :class:`CsiFailed`; cancellation reaches the driver."""

    def __init__(self, transport: Transport, options: CallOptions) -> None:
        self._transport = transport
        self._timeout = options.timeout
        self._observe = options.observe
        self._closed = False
        self._capabilities: Capabilities | None = None

    @classmethod
    def connect(cls, endpoint: str, options: CallOptions) -> "CsiClient":
        """Create a client for the socket; nothing is sent yet. Raises Invalid if it is not a unix socket address."""
        return cls(GrpcTransport(socket_path(endpoint)), options)

    async def close(self) -> None:
        """Cancel calls in progress, which then fail, and close the connection."""
        self._closed = True
        await self._transport.close()

    async def info(self) -> DriverNodeInfo:
        """Call NodeGetInfo."""
        reply = await self._call(_INFO, pb.NodeGetInfoRequest())
        return DriverNodeInfo(reply.node_id, reply.max_volumes_per_node, dict(reply.accessible_topology.segments))

    async def capabilities(self) -> Capabilities:
        """Call NodeGetCapabilities, once."""
        if self._capabilities is None:
            reply = await self._call(_CAPABILITIES, pb.NodeGetCapabilitiesRequest())
            self._capabilities = csi_rules.capabilities_of(reply)
        return self._capabilities

    async def stage(self, volume: CsiVolume, path: str, use: Use) -> None:
        """Stage the volume on the node at ``path``. Repeatable."""
        request = pb.NodeStageVolumeRequest(
            volume_id=volume.ref.handle,
            publish_context=use.publish_context,
            staging_target_path=path,
            volume_capability=csi_rules.capability(volume, await self.capabilities(), use.group),
            secrets=use.secrets,
            volume_context=use.attributes,
        )
        await self._call(_STAGE, request)

    async def unstage(self, ref: VolumeRef, path: str) -> None:
        """Undo :meth:`stage`. Repeatable."""
        await self._call(_UNSTAGE, pb.NodeUnstageVolumeRequest(volume_id=ref.handle, staging_target_path=path))

    async def publish(self, volume: CsiVolume, staged: str, target: str, use: Use) -> None:
        """Publish the volume at ``target``; ``staged`` is empty if the driver does not stage. Repeatable."""
        request = pb.NodePublishVolumeRequest(
            volume_id=volume.ref.handle,
            publish_context=use.publish_context,
            staging_target_path=staged,
            target_path=target,
            volume_capability=csi_rules.capability(volume, await self.capabilities(), use.group),
            readonly=volume.read_only,
            secrets=use.secrets,
            volume_context=use.attributes,
        )
        await self._call(_PUBLISH, request)

    async def unpublish(self, ref: VolumeRef, target: str) -> None:
        """Undo :meth:`publish`. Repeatable."""
        await self._call(_UNPUBLISH, pb.NodeUnpublishVolumeRequest(volume_id=ref.handle, target_path=target))

    async def expand(self, volume: CsiVolume, paths: tuple[str, str], size: Bytes, secrets: Mapping[str, str]) -> None:
        """Expand a published volume to ``size`` bytes; ``paths``: where it is published, and where it is staged."""
        capabilities = await self.capabilities()
        request = pb.NodeExpandVolumeRequest(
            volume_id=volume.ref.handle,
            volume_path=paths[0],
            staging_target_path=paths[1] if capabilities.stage else "",
            capacity_range=pb.CapacityRange(required_bytes=size),
            volume_capability=csi_rules.capability(volume, capabilities, None),
            secrets=secrets,
        )
        await self._call(_EXPAND, request)

    async def sizes(self, ref: VolumeRef, path: str) -> VolumeSizes | None:
        """Capacity and usage of a published volume; None if the driver does not report them."""
        if not (await self.capabilities()).stats:
            return None
        request = pb.NodeGetVolumeStatsRequest(volume_id=ref.handle, volume_path=path)
        return csi_rules.sizes_of(await self._call(_STATS, request, _STATS_TIMEOUT))

    def _is_closed(self) -> bool:
        return self._closed

    async def _call(
        self, call: UnaryCall[_Request, _Reply], request: _Request, timeout: Seconds | None = None
    ) -> _Reply:
        if self._is_closed():
            raise CsiFailed(StatusCode.UNAVAILABLE, _DRIVER_GONE)
        begun, code = CLOCK.monotonic(), StatusCode.CANCELLED
        try:
            reply = await self._transport.unary(call, request, timeout or self._timeout)
            code = StatusCode.OK
            return reply
        except AioRpcError as error:
            code = error.code()
            raise CsiFailed(code, error.details() or "") from error
        except asyncio.CancelledError as error:
            # gRPC also raises CancelledError in callers of a closed channel, whose tasks were not cancelled.
            task = asyncio.current_task()
            if self._is_closed() and (task is None or not task.cancelling()):
                raise CsiFailed(code, _DRIVER_GONE) from error
            raise
        finally:
            self._observe(call.path, code_name(code), CLOCK.monotonic() - begun)

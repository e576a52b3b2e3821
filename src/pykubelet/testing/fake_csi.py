"""A small CSI driver of the hostpath kind, with its registrar, for tests: volumes are directories, staged and
published by bind mounts.

Run it in a test's own loop (:func:`serve`), or as a process (``python -m pykubelet.testing.fake_csi --help``), which
outlives the agent that it serves. Every call is recorded; faults can be injected by method.
"""

import argparse
import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import grpc
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from pykubelet.base.errors import NotFound
from pykubelet.linux.filesystems import mounts
from pykubelet.linux.filesystems.mountinfo import is_mount_point
from pykubelet.pb import csi_v1_pb2 as pb
from pykubelet.pb import plugin_registration_v1_pb2 as reg

_Request = TypeVar("_Request", bound=Message)
_Reply = TypeVar("_Reply", bound=Message)
_Context = grpc.aio.ServicerContext[Message, Message]
_Rpc = pb.NodeServiceCapability.RPC
ALL_CAPABILITIES = (_Rpc.STAGE_UNSTAGE_VOLUME, _Rpc.GET_VOLUME_STATS, _Rpc.EXPAND_VOLUME, _Rpc.SINGLE_NODE_MULTI_WRITER)


@dataclass(slots=True)
class Fault:
    """A fault of the next calls of a method."""

    code: grpc.StatusCode = grpc.StatusCode.INTERNAL
    details: str = "ordered"
    times: int = 1
    hang: bool = False
    """Wait for ever instead of failing."""


@dataclass
class FakeDriver:
    """The driver: its features and the calls that it has received."""

    name: str
    data: Path
    """Directory with one directory per volume, named after the volume handle."""
    node_id: str = "node-1"
    max_volumes: int = 0
    topology: Mapping[str, str] = field(default_factory=dict)
    capabilities: "tuple[pb.NodeServiceCapability.RPC.Type.ValueType, ...]" = ALL_CAPABILITIES
    mounting: bool = True
    """Whether to mount; otherwise only directories are created, which needs no privileges."""
    heeds_read_only: bool = True
    """Whether volumes are mounted read-only when the agent requests it; some drivers ignore that."""
    calls: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    """Method and request of every call, in order."""
    faults: dict[str, Fault] = field(default_factory=dict)
    status: list[tuple[bool, str]] = field(default_factory=list)
    """Results of the registration, as reported by the agent: success and error message."""
    log: Path | None = None
    """File to which one line of JSON is appended per call."""
    limit: Path | None = None
    """File that has the number of volumes that the node can have, as it is now, instead of ``max_volumes``."""
    below: str = ""
    """Subdirectory of ``plugins_registry`` for the registration socket, and of the driver's own for the other one."""

    def made(self, method: str) -> list[dict[str, object]]:
        """The recorded requests of one method."""
        return [request for name, request in self.calls if name == method]

    async def note(self, method: str, request: Message) -> None:
        """Record a call and apply its fault. Raises :class:`RefusedError`."""
        fields = MessageToDict(request, preserving_proto_field_name=True)
        self.calls.append((method, fields))
        if self.log is not None:
            with self.log.open("a") as file:
                file.write(json.dumps([method, fields]) + "\n")
        fault = self.faults.get(method)
        if fault is None:
            return
        fault.times -= 1
        if fault.times <= 0:
            del self.faults[method]
        if fault.hang:
            await asyncio.Event().wait()
        raise RefusedError(fault.code, fault.details)

    # -- the node service

    async def get_info(self, _: pb.NodeGetInfoRequest) -> pb.NodeGetInfoResponse:
        return pb.NodeGetInfoResponse(
            node_id=self.node_id,
            max_volumes_per_node=self.max_volumes if self.limit is None else int(self.limit.read_text()),
            accessible_topology=pb.Topology(segments=self.topology) if self.topology else None,
        )

    async def get_capabilities(self, _: pb.NodeGetCapabilitiesRequest) -> pb.NodeGetCapabilitiesResponse:
        kinds = [pb.NodeServiceCapability(rpc=_Rpc(type=kind)) for kind in self.capabilities]
        return pb.NodeGetCapabilitiesResponse(capabilities=kinds)

    async def stage(self, request: pb.NodeStageVolumeRequest) -> pb.NodeStageVolumeResponse:
        if request.volume_capability.HasField("mount"):
            self._show(self._volume(request.volume_id), Path(request.staging_target_path))
        return pb.NodeStageVolumeResponse()

    async def unstage(self, request: pb.NodeUnstageVolumeRequest) -> pb.NodeUnstageVolumeResponse:
        self._hide(Path(request.staging_target_path))
        return pb.NodeUnstageVolumeResponse()

    async def publish(self, request: pb.NodePublishVolumeRequest) -> pb.NodePublishVolumeResponse:
        target = Path(request.target_path)
        if request.volume_capability.HasField("block"):
            target.touch()
            if self.mounting and not is_mount_point(target):
                mounts.bind("/dev/null", str(target), recursive=False)
            return pb.NodePublishVolumeResponse()
        staged = request.staging_target_path
        source = Path(staged) if staged and self.mounting else self._volume(request.volume_id)
        self._show(source, target, read_only=request.readonly and self.heeds_read_only)
        return pb.NodePublishVolumeResponse()

    async def unpublish(self, request: pb.NodeUnpublishVolumeRequest) -> pb.NodeUnpublishVolumeResponse:
        target = Path(request.target_path)
        self._hide(target)
        if target.is_file():
            target.unlink()
        elif target.is_dir():
            target.rmdir()
        return pb.NodeUnpublishVolumeResponse()

    async def expand(self, request: pb.NodeExpandVolumeRequest) -> pb.NodeExpandVolumeResponse:
        return pb.NodeExpandVolumeResponse(capacity_bytes=request.capacity_range.required_bytes)

    async def stats(self, request: pb.NodeGetVolumeStatsRequest) -> pb.NodeGetVolumeStatsResponse:
        sizes = pb.VolumeUsage(available=700, total=1000, used=300, unit=pb.VolumeUsage.BYTES)
        inodes = pb.VolumeUsage(available=7, total=10, used=3, unit=pb.VolumeUsage.INODES)
        return pb.NodeGetVolumeStatsResponse(usage=[sizes, inodes])

    def _volume(self, handle: str) -> Path:
        path = self.data / handle
        path.mkdir(parents=True, exist_ok=True)
        return path

    def _show(self, source: Path, target: Path, *, read_only: bool = False) -> None:
        target.mkdir(parents=True, exist_ok=True)
        if self.mounting and not is_mount_point(target):
            mounts.bind(str(source), str(target), recursive=False, read_only=read_only)

    def _hide(self, target: Path) -> None:
        if self.mounting:
            with suppress(NotFound):
                mounts.unmount(str(target))

    # -- registration

    async def plugin_info(self, endpoint: str) -> reg.PluginInfo:
        return reg.PluginInfo(type="CSIPlugin", name=self.name, endpoint=endpoint, supported_versions=["1.0.0"])

    async def notified(self, request: reg.RegistrationStatus) -> reg.RegistrationStatusResponse:
        self.status.append((request.plugin_registered, request.error))
        return reg.RegistrationStatusResponse()


class RefusedError(Exception):
    """The driver returns an error."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code = code
        self.details = details


@asynccontextmanager
async def serve(driver: FakeDriver, root: Path) -> AsyncIterator[None]:
    """Serve the driver below an agent's root directory, and register it, until the block ends."""
    socket = root / "plugins" / driver.name / driver.below / "csi.sock"
    registry = root / "plugins_registry" / driver.below
    for directory in (socket.parent, registry):
        directory.mkdir(parents=True, exist_ok=True)
    registrar = {
        "GetInfo": _handler(driver, "", lambda _: driver.plugin_info(str(socket)), reg.InfoRequest),
        "NotifyRegistrationStatus": _handler(driver, "", driver.notified, reg.RegistrationStatus),
    }
    async with (
        _server(socket, "csi.v1.Node", _node_methods(driver)),
        _server(registry / f"{driver.name}-reg.sock", "pluginregistration.Registration", registrar),
    ):
        yield


@asynccontextmanager
async def _server(
    socket: Path, service: str, methods: "dict[str, grpc.RpcMethodHandler[Message, Message]]"
) -> AsyncIterator[None]:
    socket.unlink(missing_ok=True)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, methods)])
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        yield
    finally:
        socket.unlink(missing_ok=True)
        await server.stop(None)


def _node_methods(driver: FakeDriver) -> "dict[str, grpc.RpcMethodHandler[Message, Message]]":
    return {
        "NodeGetInfo": _handler(driver, "NodeGetInfo", driver.get_info, pb.NodeGetInfoRequest),
        "NodeGetCapabilities": _handler(
            driver, "NodeGetCapabilities", driver.get_capabilities, pb.NodeGetCapabilitiesRequest
        ),
        "NodeStageVolume": _handler(driver, "NodeStageVolume", driver.stage, pb.NodeStageVolumeRequest),
        "NodeUnstageVolume": _handler(driver, "NodeUnstageVolume", driver.unstage, pb.NodeUnstageVolumeRequest),
        "NodePublishVolume": _handler(driver, "NodePublishVolume", driver.publish, pb.NodePublishVolumeRequest),
        "NodeUnpublishVolume": _handler(driver, "NodeUnpublishVolume", driver.unpublish, pb.NodeUnpublishVolumeRequest),
        "NodeExpandVolume": _handler(driver, "NodeExpandVolume", driver.expand, pb.NodeExpandVolumeRequest),
        "NodeGetVolumeStats": _handler(driver, "NodeGetVolumeStats", driver.stats, pb.NodeGetVolumeStatsRequest),
    }


def _handler(
    driver: FakeDriver, method: str, work: Callable[[_Request], Awaitable[_Reply]], request_type: type[_Request]
) -> "grpc.RpcMethodHandler[Message, Message]":
    async def handle(request: Message, context: _Context) -> Message:
        assert isinstance(request, request_type)
        try:
            if method:
                await driver.note(method, request)
            return await work(request)
        except RefusedError as refused:
            await context.abort(refused.code, refused.details)

    return grpc.unary_unary_rpc_method_handler(handle, request_type.FromString, lambda m: m.SerializeToString())


async def _main(driver: FakeDriver, root: Path) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    async with serve(driver, root):
        await ended.wait()


def main() -> None:
    """Serve one driver until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="fake.csi.example.com")
    parser.add_argument("--root", type=Path, required=True, help="the agent's root directory")
    parser.add_argument("--data", type=Path, required=True, help="directory of the volumes")
    parser.add_argument("--log", type=Path, help="file that gets every call")
    parser.add_argument("--label", default="topology.fake.csi/node", help="the topology label")
    parser.add_argument("--segment", default="a", help="the node's value of the topology label")
    parser.add_argument("--limit", type=Path, help="file with the number of volumes that the node can have")
    parser.add_argument("--ignore-read-only", action="store_true", help="mount all volumes writable")
    given = parser.parse_args()
    driver = FakeDriver(
        given.name,
        given.data,
        topology={given.label: given.segment},
        max_volumes=9,
        heeds_read_only=not given.ignore_read_only,
        log=given.log,
        limit=given.limit,
    )
    asyncio.run(_main(driver, given.root))


if __name__ == "__main__":
    main()

"""The fake runtime's CRI calls about sandboxes, its status and its event streams."""

import asyncio
from collections.abc import AsyncGenerator
from typing import TypeVar

from grpc import StatusCode

from pykubelet.kubelet.actuate.cri import calls
from pykubelet.kubelet.actuate.cri.containerd_events import SUBSCRIBE
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.pb.containerd_events_service_pb2 import Envelope, SubscribeRequest
from pykubelet.testing.fake_cri.faults import RpcError
from pykubelet.testing.fake_cri.router import Router
from pykubelet.testing.fake_cri.state import FakeSandbox, has_labels, nanoseconds
from pykubelet.testing.fake_cri.world import World

_Item = TypeVar("_Item")


class SandboxHandlers:
    """The CRI calls about the runtime and its sandboxes."""

    def __init__(self, world: World, router: Router) -> None:
        self._world = world
        router.serve(calls.VERSION, self._version)
        router.serve(calls.STATUS, self._status)
        router.serve(calls.RUNTIME_CONFIG, self._runtime_config)
        router.serve(calls.UPDATE_RUNTIME_CONFIG, self._update_runtime_config)
        router.serve(calls.RUN_POD_SANDBOX, self._run)
        router.serve(calls.STOP_POD_SANDBOX, self._stop)
        router.serve(calls.REMOVE_POD_SANDBOX, self._remove)
        router.serve(calls.POD_SANDBOX_STATUS, self._sandbox_status)
        router.serve(calls.LIST_POD_SANDBOX, self._list)
        router.serve_stream(calls.STREAM_POD_SANDBOXES, self._stream)
        router.serve(calls.UPDATE_POD_SANDBOX_RESOURCES, self._update_resources)
        router.serve(calls.PORT_FORWARD, self._port_forward)
        router.serve_stream(calls.GET_CONTAINER_EVENTS, self._events)
        if world.options.containerd_events:
            router.serve_stream(SUBSCRIBE, self._native_events)

    def _version(self, request: pb.VersionRequest) -> pb.VersionResponse:
        return pb.VersionResponse(
            version="0.1.0", runtime_name="fake", runtime_version="1.0.0", runtime_api_version="v1"
        )

    def _status(self, request: pb.StatusRequest) -> pb.StatusResponse:
        conditions = [
            pb.RuntimeCondition(type=name, status=ok, reason="" if ok else "NotReady")
            for name, ok in self._world.conditions.items()
        ]
        return pb.StatusResponse(
            status=pb.RuntimeStatus(conditions=conditions),
            info={"config": "{}"} if request.verbose else None,
            runtime_handlers=[pb.RuntimeHandler(name=name) for name in sorted(self._world.options.handlers)],
        )

    def _runtime_config(self, request: pb.RuntimeConfigRequest) -> pb.RuntimeConfigResponse:
        return pb.RuntimeConfigResponse(linux=pb.LinuxRuntimeConfiguration(cgroup_driver=pb.CGROUPFS))

    def _update_runtime_config(self, request: pb.UpdateRuntimeConfigRequest) -> pb.UpdateRuntimeConfigResponse:
        self._world.pod_cidr = request.runtime_config.network_config.pod_cidr
        return pb.UpdateRuntimeConfigResponse()

    def _run(self, request: pb.RunPodSandboxRequest) -> pb.RunPodSandboxResponse:
        world, config = self._world, request.config
        meta = config.metadata
        if not (meta.name and meta.namespace and meta.uid):
            raise RpcError(StatusCode.INVALID_ARGUMENT, "the sandbox needs a name, a namespace and a uid")
        if request.runtime_handler not in world.options.handlers:
            raise RpcError(StatusCode.INVALID_ARGUMENT, f'no runtime for "{request.runtime_handler}" is configured')
        host_network = config.linux.security_context.namespace_options.network == pb.NODE
        if host_network and config.hostname:
            raise RpcError(StatusCode.UNKNOWN, "unable to set hostname without a private UTS namespace")
        if not host_network and not world.conditions["NetworkReady"]:
            raise RpcError(StatusCode.UNKNOWN, "network plugin is not ready")
        sandbox = FakeSandbox(
            id=world.new_id("sandbox"),
            config=config,
            handler=request.runtime_handler,
            created_at=nanoseconds(world.clock),
            ip="" if host_network else world.new_address(),
        )
        world.add_sandbox(sandbox)
        return pb.RunPodSandboxResponse(pod_sandbox_id=sandbox.id)

    def _stop(self, request: pb.StopPodSandboxRequest) -> pb.StopPodSandboxResponse:
        self._world.stop_sandbox(self._world.sandbox(request.pod_sandbox_id))
        return pb.StopPodSandboxResponse()

    def _remove(self, request: pb.RemovePodSandboxRequest) -> pb.RemovePodSandboxResponse:
        sandbox = self._world.sandboxes.get(request.pod_sandbox_id)
        if sandbox is not None:
            self._world.remove_sandbox(sandbox)
        return pb.RemovePodSandboxResponse()

    def _sandbox_status(self, request: pb.PodSandboxStatusRequest) -> pb.PodSandboxStatusResponse:
        sandbox = self._world.sandbox(request.pod_sandbox_id)
        events = self._world.options.supports_events
        return pb.PodSandboxStatusResponse(
            status=sandbox.status(),
            info={"info": "{}"} if request.verbose else None,
            containers_statuses=[c.status() for c in self._world.containers_of(sandbox)] if events else (),
            timestamp=nanoseconds(self._world.clock) if events else 0,
        )

    def _select(self, filter: pb.PodSandboxFilter) -> list[pb.PodSandbox]:
        return [
            sandbox.summary()
            for sandbox in self._world.sandboxes.values()
            if filter.id in ("", sandbox.id)
            and (not filter.HasField("state") or filter.state.state == sandbox.state)
            and has_labels(sandbox.config.labels, filter.label_selector)
        ]

    def _list(self, request: pb.ListPodSandboxRequest) -> pb.ListPodSandboxResponse:
        return pb.ListPodSandboxResponse(items=self._select(request.filter))

    async def _stream(
        self, request: pb.StreamPodSandboxesRequest
    ) -> AsyncGenerator[pb.StreamPodSandboxesResponse, None]:
        for sandbox in self._select(request.filter):
            yield pb.StreamPodSandboxesResponse(pod_sandboxes=[sandbox])

    def _update_resources(self, request: pb.UpdatePodSandboxResourcesRequest) -> pb.UpdatePodSandboxResourcesResponse:
        linux = self._world.sandbox(request.pod_sandbox_id).config.linux
        linux.overhead.MergeFrom(request.overhead)
        linux.resources.MergeFrom(request.resources)
        return pb.UpdatePodSandboxResourcesResponse()

    def _port_forward(self, request: pb.PortForwardRequest) -> pb.PortForwardResponse:
        sandbox = self._world.sandbox(request.pod_sandbox_id)
        if not sandbox.ready:
            raise RpcError(StatusCode.FAILED_PRECONDITION, "the sandbox is not ready")
        return pb.PortForwardResponse(url=f"http://127.0.0.1:10010/portforward/{sandbox.id}")

    def _events(self, request: pb.GetEventsRequest) -> AsyncGenerator[pb.ContainerEventResponse, None]:
        return _listen(self._world.cri_listeners)

    def _native_events(self, request: SubscribeRequest) -> AsyncGenerator[Envelope, None]:
        return _listen(self._world.native_listeners)


async def _listen(listeners: "set[asyncio.Queue[_Item | None]]") -> AsyncGenerator[_Item, None]:
    queue: asyncio.Queue[_Item | None] = asyncio.Queue()
    listeners.add(queue)
    try:
        while (item := await queue.get()) is not None:
            yield item
        raise RpcError(StatusCode.UNAVAILABLE, "the stream was dropped")
    finally:
        listeners.discard(queue)

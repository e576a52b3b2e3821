"""The fake runtime's CRI calls about containers."""

from collections.abc import AsyncGenerator

from grpc import StatusCode

from pykubelet.kubelet.actuate.cri import calls
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.fake_cri.faults import RpcError
from pykubelet.testing.fake_cri.router import Router
from pykubelet.testing.fake_cri.state import FakeContainer, has_labels, nanoseconds
from pykubelet.testing.fake_cri.world import World


class ContainerHandlers:
    """The CRI calls about containers and the commands in them."""

    def __init__(self, world: World, router: Router) -> None:
        self._world = world
        router.serve(calls.CREATE_CONTAINER, self._create)
        router.serve(calls.START_CONTAINER, self._start)
        router.serve(calls.STOP_CONTAINER, self._stop)
        router.serve(calls.REMOVE_CONTAINER, self._remove)
        router.serve(calls.LIST_CONTAINERS, self._list)
        router.serve_stream(calls.STREAM_CONTAINERS, self._stream)
        router.serve(calls.CONTAINER_STATUS, self._status)
        router.serve(calls.UPDATE_CONTAINER_RESOURCES, self._update)
        router.serve(calls.REOPEN_CONTAINER_LOG, self._reopen_log)
        router.serve(calls.CHECKPOINT_CONTAINER, self._checkpoint)
        router.serve(calls.EXEC_SYNC, self._exec_sync)
        router.serve(calls.EXEC, self._exec)
        router.serve(calls.ATTACH, self._attach)

    def _create(self, request: pb.CreateContainerRequest) -> pb.CreateContainerResponse:
        world, config = self._world, request.config
        sandbox = world.sandbox(request.pod_sandbox_id)
        if not sandbox.ready:
            raise RpcError(StatusCode.FAILED_PRECONDITION, f'sandbox "{sandbox.id}" is not ready')
        if not config.metadata.name:
            raise RpcError(StatusCode.INVALID_ARGUMENT, "the container needs a name")
        image = world.image(config.image.image)
        if image is None:
            raise RpcError(StatusCode.NOT_FOUND, f'failed to resolve image "{config.image.image}": not found')
        script = world.scripts.find(config, sandbox.pod)
        if script.fail_create is not None:
            raise RpcError(*script.fail_create)
        container = FakeContainer(
            id=world.new_id("container"),
            sandbox=sandbox,
            config=config,
            image=image,
            script=script,
            created_at=nanoseconds(world.clock),
        )
        world.add_container(container)
        return pb.CreateContainerResponse(container_id=container.id)

    def _start(self, request: pb.StartContainerRequest) -> pb.StartContainerResponse:
        container = self._world.container(request.container_id)
        if container.state != pb.CONTAINER_CREATED:
            raise RpcError(StatusCode.FAILED_PRECONDITION, f"container is in {_state(container)} state")
        if container.script.fail_start:
            self._world.fail_start(container, container.script.fail_start)
            raise RpcError(StatusCode.UNKNOWN, container.script.fail_start)
        self._world.start(container)
        return pb.StartContainerResponse()

    async def _stop(self, request: pb.StopContainerRequest) -> pb.StopContainerResponse:
        container = self._world.container(request.container_id)
        if container.running:
            self._world.ask_to_end(container, request.timeout)
            await container.ended.wait()
        return pb.StopContainerResponse()

    def _remove(self, request: pb.RemoveContainerRequest) -> pb.RemoveContainerResponse:
        container = self._world.containers.get(request.container_id)
        if container is not None:
            self._world.remove_container(container)
        return pb.RemoveContainerResponse()

    def _select(self, filter: pb.ContainerFilter) -> list[pb.Container]:
        return [
            container.summary()
            for container in self._world.containers.values()
            if filter.id in ("", container.id)
            and (not filter.HasField("state") or filter.state.state == container.state)
            and filter.pod_sandbox_id in ("", container.sandbox.id)
            and has_labels(container.config.labels, filter.label_selector)
        ]

    def _list(self, request: pb.ListContainersRequest) -> pb.ListContainersResponse:
        return pb.ListContainersResponse(containers=self._select(request.filter))

    async def _stream(self, request: pb.StreamContainersRequest) -> AsyncGenerator[pb.StreamContainersResponse, None]:
        for container in self._select(request.filter):
            yield pb.StreamContainersResponse(containers=[container])

    def _status(self, request: pb.ContainerStatusRequest) -> pb.ContainerStatusResponse:
        container = self._world.container(request.container_id)
        return pb.ContainerStatusResponse(status=container.status(), info={"info": "{}"} if request.verbose else None)

    def _update(self, request: pb.UpdateContainerResourcesRequest) -> pb.UpdateContainerResourcesResponse:
        container = self._world.container(request.container_id)
        if container.state not in (pb.CONTAINER_CREATED, pb.CONTAINER_RUNNING):
            raise RpcError(StatusCode.FAILED_PRECONDITION, f"container is in {_state(container)} state")
        container.config.linux.resources.MergeFrom(request.linux)
        return pb.UpdateContainerResourcesResponse()

    def _reopen_log(self, request: pb.ReopenContainerLogRequest) -> pb.ReopenContainerLogResponse:
        self._world.write_log(self._running(request.container_id), ())
        return pb.ReopenContainerLogResponse()

    def _checkpoint(self, request: pb.CheckpointContainerRequest) -> pb.CheckpointContainerResponse:
        self._running(request.container_id)
        return pb.CheckpointContainerResponse()

    async def _exec_sync(self, request: pb.ExecSyncRequest) -> pb.ExecSyncResponse:
        container = self._running(request.container_id)
        script = self._world.scripts.find_exec(container.name, request.cmd)
        if script.fail is not None:
            raise RpcError(*script.fail)
        if 0 < request.timeout < script.duration:
            await self._world.clock.sleep(request.timeout)
            raise RpcError(
                StatusCode.DEADLINE_EXCEEDED, f"timeout {request.timeout}s exceeded: context deadline exceeded"
            )
        if script.duration:
            await self._world.clock.sleep(script.duration)
        return pb.ExecSyncResponse(exit_code=script.exit_code, stdout=script.stdout, stderr=script.stderr)

    def _exec(self, request: pb.ExecRequest) -> pb.ExecResponse:
        container = self._running(request.container_id)
        return pb.ExecResponse(url=f"http://127.0.0.1:10010/exec/{container.id}")

    def _attach(self, request: pb.AttachRequest) -> pb.AttachResponse:
        container = self._running(request.container_id)
        return pb.AttachResponse(url=f"http://127.0.0.1:10010/attach/{container.id}")

    def _running(self, container_id: str) -> FakeContainer:
        container = self._world.container(container_id)
        if not container.running:
            raise RpcError(StatusCode.FAILED_PRECONDITION, f"container is in {_state(container)} state")
        return container


def _state(container: FakeContainer) -> str:
    return pb.ContainerState.Name(container.state)

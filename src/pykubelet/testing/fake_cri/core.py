"""`FakeCri`: the interface of the fake runtime for tests."""

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from google.protobuf.message import Message

from pykubelet.base.clock import Clock
from pykubelet.kubelet.actuate.cri.caller import CriOptions
from pykubelet.kubelet.actuate.cri.client import CriClient
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.fake_cri.container_calls import ContainerHandlers
from pykubelet.testing.fake_cri.faults import CallRecord, Fault
from pykubelet.testing.fake_cri.image_calls import ImageHandlers
from pykubelet.testing.fake_cri.router import Router
from pykubelet.testing.fake_cri.sandbox_calls import SandboxHandlers
from pykubelet.testing.fake_cri.scripts import ExecScript, Script
from pykubelet.testing.fake_cri.state import FakeContainer, FakeImage, FakeSandbox
from pykubelet.testing.fake_cri.transport import DirectTransport
from pykubelet.testing.fake_cri.usage_calls import UsageHandlers
from pykubelet.testing.fake_cri.world import FakeCriOptions, World

__all__ = ["FakeCri", "FakeCriOptions"]


class FakeCri:
    """A container runtime in memory; use it as `async with`. It outlives its clients, as a real runtime does."""

    def __init__(self, clock: Clock, options: FakeCriOptions | None = None) -> None:
        options = options or FakeCriOptions()
        self._clock = clock
        self._tasks = asyncio.TaskGroup()
        self._world = World(clock, options, self._tasks)
        unsupported = set(options.unsupported) | (set() if options.supports_events else {"GetContainerEvents"})
        self.router = Router(clock, unsupported, self._name_target)
        SandboxHandlers(self._world, self.router)
        ContainerHandlers(self._world, self.router)
        ImageHandlers(self._world, self.router)
        UsageHandlers(self._world, self.router)

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for container in self._world.containers.values():
            for task in container.tasks:
                task.cancel()
        # The test's own error must not be wrapped into an exception group.
        await self._tasks.__aexit__(None, None, None)

    def client(self, options: CriOptions | None = None) -> CriClient:
        """A client that calls this runtime without gRPC; deadlines follow the fake's clock."""
        return CriClient(DirectTransport(self.router, self._clock), options or CriOptions(clock=self._clock))

    # -- set-up by tests

    def script(
        self, *scripts: Script, container: str | None = None, image: str | None = None, pod: str | None = None
    ) -> None:
        """Script containers of that name, image and pod (`ns/pod`); the n-th script is for the n-th attempt.

        The last matching rule wins; it applies to containers created from now on.
        """
        self._world.scripts.add(scripts, container, image, pod)

    def script_exec(
        self, script: ExecScript, *, command: Sequence[str] | None = None, container: str | None = None
    ) -> None:
        """Script commands that begin with these words, in containers of that name, from now on."""
        self._world.scripts.add_exec(script, None if command is None else tuple(command), container)

    def add_image(self, name: str, image: FakeImage | None = None) -> FakeImage:
        """Add an image with that tag to the node and to the registry."""
        image = self.publish_image(name, image)
        self._world.images.append(image)
        return image

    def publish_image(self, name: str, image: FakeImage | None = None) -> FakeImage:
        """Add an image to the registry, so that it can be pulled."""
        image = image or FakeImage(id=f"sha256:{self._world.new_id('image')}", tags=[])
        if name not in image.names():
            image.tags.append(name)
        self._world.registry.append(image)
        return image

    def inject(self, fault: Fault) -> Fault:
        """Inject a fault into calls; of several matching faults the one injected first applies."""
        self.router.faults.append(fault)
        return fault

    def remove_fault(self, fault: Fault) -> None:
        """Remove a fault; calls that it made hang continue."""
        self.router.faults.remove(fault)
        fault.release()

    def set_condition(self, condition: str, ok: bool) -> None:
        """Set RuntimeReady or NetworkReady in Status; without the network no sandbox can be created."""
        self._world.conditions[condition] = ok

    def end_container(self, container: FakeContainer, code: int = 0, reason: str = "") -> None:
        """Make a running container exit by itself now."""
        self._world.end(container, code, reason)

    def end_sandbox(self, sandbox: FakeSandbox) -> None:
        """End a sandbox and all its containers, as if its pause process had been killed."""
        self._world.stop_sandbox(sandbox)

    def drop_event_streams(self) -> None:
        """Break all event streams; clients may open new ones."""
        self._world.drop_listeners()

    # -- inspection by tests

    @property
    def log(self) -> list[CallRecord]:
        """All calls in order; a test may clear the list."""
        return self.router.log

    def calls(self, *methods: str) -> list[str]:
        """The targets of the calls of these methods, in order."""
        return [record.target for record in self.router.log if record.method in methods]

    @property
    def sandboxes(self) -> list[FakeSandbox]:
        """All sandboxes, in the order of their creation."""
        return list(self._world.sandboxes.values())

    @property
    def containers(self) -> list[FakeContainer]:
        """All containers, in the order of their creation."""
        return list(self._world.containers.values())

    @property
    def images(self) -> list[FakeImage]:
        """All images on the node."""
        return list(self._world.images)

    @property
    def pending(self) -> int:
        """Number of calls in progress, without streams."""
        return self.router.pending

    @property
    def listeners(self) -> int:
        """Number of open event streams."""
        return len(self._world.cri_listeners) + len(self._world.native_listeners)

    def container(self, path: str) -> FakeContainer:
        """The newest container with that `ns/pod/container`; KeyError if it does not exist."""
        for container in reversed(self.containers):
            if container.path == path:
                return container
        raise KeyError(path)

    def sandbox(self, pod: str) -> FakeSandbox:
        """The newest sandbox of that `ns/pod`; KeyError if it does not exist."""
        for sandbox in reversed(self.sandboxes):
            if sandbox.pod == pod:
                return sandbox
        raise KeyError(pod)

    def _name_target(self, request: Message) -> str:
        match request:
            case pb.RunPodSandboxRequest():
                return f"{request.config.metadata.namespace}/{request.config.metadata.name}"
            case pb.CreateContainerRequest():
                return f"{self._name_sandbox(request.pod_sandbox_id)}/{request.config.metadata.name}"
            case pb.ImageStatusRequest() | pb.PullImageRequest() | pb.RemoveImageRequest():
                return request.image.image
        if "container_id" in request.DESCRIPTOR.fields_by_name:
            container_id: str = getattr(request, "container_id", "")
            container = self._world.containers.get(container_id)
            return container.path if container else container_id
        sandbox_id: str = getattr(request, "pod_sandbox_id", "")
        return self._name_sandbox(sandbox_id)

    def _name_sandbox(self, sandbox_id: str) -> str:
        sandbox = self._world.sandboxes.get(sandbox_id)
        return sandbox.pod if sandbox else sandbox_id

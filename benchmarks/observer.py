"""Observe pods through the runtime, so that every agent is measured with the same clock and without requests to it.

A start is the runtime's ``startedAt``, an exit its ``finishedAt``: nanoseconds of the wall clock. The runtime's event
stream only triggers lists; the cost of a few lists for the measured agent is negligible.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from pykubelet.base.errors import Permanent, PykubeletError
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.actuate.cri.containerd_events import SUBSCRIBE
from pykubelet.kubelet.actuate.cri_messages.labels import POD_NAME
from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.pb.containerd_events_service_pb2 import SubscribeRequest

NODE = "bench"
"""Node name of every agent; the names of static pods end with it."""

_LOOK_SECONDS = 1.0
_REMOVALS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Run:
    """One start of one container; times in nanoseconds of the wall clock, 0 if it has not happened yet."""

    pod: str
    """Name of the pod in the manifest, without the node's name."""
    container: str
    attempt: int
    started: int
    finished: int


class Observer:
    """Follows one runtime."""

    def __init__(self, client: CriClient) -> None:
        self.client = client
        self._starts = 0
        self._started = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def connect(cls, endpoint: str) -> "AsyncIterator[Observer]":
        """Follow the runtime at the endpoint while the context lasts."""
        async with CriClient.connect(endpoint) as client, asyncio.TaskGroup() as group:
            observer = cls(client)
            follow = group.create_task(observer._follow(), name=f"observe {endpoint}")
            yield observer
            follow.cancel()

    async def until(
        self, done: Callable[[Sequence[pb.Container]], bool], starts: int, timeout: float
    ) -> Sequence[pb.Container]:
        """Wait until `done` is true for the list of all containers; returns the list.

        Lists after `starts` further starts of containers or sandboxes, and every second. Permanent: timeout.
        """
        target = self._starts + starts
        try:
            async with asyncio.timeout(timeout):
                while True:
                    await self._reach(target)
                    containers = await self.client.list_containers()
                    if done(containers):
                        return containers
        except TimeoutError:
            raise Permanent(f"the runtime did not get there within {timeout:.0f} s") from None

    async def running(self, pods: Collection[str], timeout: float = 60.0) -> list[Run]:
        """Wait until the main container of every pod runs; returns the starts of all their containers."""

        def done(containers: Sequence[pb.Container]) -> bool:
            return set(pods) <= _running(containers, attempt=0)

        containers = await self.until(done, 2 * len(pods), timeout)
        return await self.runs(containers, pods)

    async def restarted(self, pod: str, timeout: float = 60.0) -> list[Run]:
        """Wait until the pod's main container runs for the second time; returns all its starts."""
        containers = await self.until(lambda found: pod in _running(found, attempt=1), 3, timeout)
        return await self.runs(containers, {pod})

    async def runs(self, containers: Sequence[pb.Container], pods: Collection[str]) -> list[Run]:
        """The times of these pods' containers."""
        found = []
        for container in containers:
            if pod_name(container.labels) in pods:
                status = (await self.client.container_status(ContainerID(container.id))).status
                meta = container.metadata
                pod = pod_name(container.labels)
                found.append(Run(pod, meta.name, meta.attempt, status.started_at, status.finished_at))
        return found

    async def stopped(self, timeout: float = 120.0) -> None:
        """Wait until no sandbox is ready, then remove the stopped ones, so that the next part starts clean."""
        ready = pb.PodSandboxFilter(state=pb.PodSandboxStateValue(state=pb.SANDBOX_READY))
        try:
            async with asyncio.timeout(timeout):
                left = await self.client.list_pod_sandboxes(ready)
                while left:
                    await asyncio.sleep(0.1)
                    left = await self.client.list_pod_sandboxes(ready)
        except TimeoutError:
            raise Permanent(f"pods still run {timeout:.0f} s after their manifests were removed") from None
        await remove_sandboxes(self.client)

    async def _reach(self, target: int) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_SECONDS):
                while self._starts < target:
                    self._started.clear()
                    await self._started.wait()
                # The event is sent a moment before CRI reports "running".
                await asyncio.sleep(0.05)

    async def _follow(self) -> None:
        if (await self.client.version()).runtime_name != "containerd":
            async for event in self.client.get_container_events():
                if event.container_event_type == pb.CONTAINER_STARTED_EVENT:
                    self._starts += 1
                    self._started.set()
            return
        request = SubscribeRequest(filters=['namespace==k8s.io,topic=="/tasks/start"'])
        async for _ in self.client.stream(SUBSCRIBE, request):
            self._starts += 1
            self._started.set()


async def remove_sandboxes(client: CriClient) -> None:
    """Stop and remove every sandbox of a runtime, with its network."""
    gate = asyncio.Semaphore(_REMOVALS_AT_ONCE)

    async def remove(sandbox: SandboxID) -> None:
        async with gate:
            # An agent may be removing it at this moment, which has the same result.
            with suppress(PykubeletError):
                await client.stop_pod_sandbox(sandbox)
                await client.remove_pod_sandbox(sandbox)

    async with asyncio.TaskGroup() as group:
        for sandbox in await client.list_pod_sandboxes():
            group.create_task(remove(SandboxID(sandbox.id)), name=f"remove {sandbox.metadata.name}")


def pod_name(labels: Mapping[str, str]) -> str:
    """The pod's name in its manifest, from a container's labels."""
    return labels.get(POD_NAME, "").removesuffix(f"-{NODE}")


def _running(containers: Sequence[pb.Container], attempt: int) -> set[str]:
    return {
        pod_name(container.labels)
        for container in containers
        if container.metadata.name == "main"
        and container.metadata.attempt == attempt
        and container.state == pb.CONTAINER_RUNNING
    }

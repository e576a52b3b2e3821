"""A local API server on a socket in a temporary directory, with fakes for everything that it uses."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
from msgspec.structs import replace

from pykubelet.base.errors import Conflict, Transient
from pykubelet.base.units import Bytes
from pykubelet.kubelet.config.plan.reload_plan import ConfigView
from pykubelet.kubelet.report.events import EventLog
from pykubelet.kubelet.report.metrics import KubeletMetrics
from pykubelet.kubelet.report.timeline import PodTimelines
from pykubelet.kubelet.serve.local_api import (
    AgentView,
    ImageView,
    LocalConfig,
    LocalDeps,
    LocalServer,
    ManifestsView,
    ManifestView,
    PodsView,
    ProblemView,
    PullView,
    VersionView,
)
from pykubelet.kubelet.serve.streams import StreamOptions
from pykubelet.kubelet.types.ids import ContainerID, PodUID
from pykubelet.kubelet.types.reports.container_ends import ContainerEnd
from pykubelet.kubelet.types.reports.explain_views import ExplainView
from pykubelet.kubelet.types.reports.node_view import ApplyRequest, ApplyView, ChangeView, NodeView, ObjectView
from pykubelet.kubelet.types.reports.timeline_views import TimelineView
from pykubelet.kubelet.types.resources.stats import CpuStats, NodeStats, Summary
from pykubelet.models import core_v1 as core
from pykubelet.models.core_v1 import Event, Pod
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.models.scalars import time_from_unix
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.statuses import SettableStatuses
from pykubelet.testing.telemetry import telemetry
from tests.unit.kubelet.report.pods import NOW, pod
from tests.unit.kubelet.report.status.build import Node as NodeFacts
from tests.unit.kubelet.serve.logs.records import raw


def running(value: Pod | None = None, *, restarts: int = 0, name: str = "app") -> core.PodStatus:
    """The status of a pod whose container runs."""
    status = core.ContainerStatus(
        name=name,
        ready=True,
        restart_count=restarts,
        container_id=f"containerd://{name}-{restarts}",
        state=core.ContainerState(running=core.ContainerStateRunning()),
    )
    return core.PodStatus(phase="Running", container_statuses=(status,))


def ended(code: int = 0, *, phase: str = "Running") -> core.PodStatus:
    """The status of a pod whose container has ended."""
    end = core.ContainerState(terminated=core.ContainerStateTerminated(exit_code=code))
    status = replace(running().container_statuses[0], ready=False, state=end)
    return core.PodStatus(phase=phase, container_statuses=(status,))


class FakeRequests:
    """Keeps what clients have requested."""

    def __init__(self) -> None:
        self.made: list[tuple[str, PodUID, str]] = []
        self.listed: set[str] = set()
        """The uids that a source lists."""

    async def restart(self, uid: PodUID, container: str) -> None:
        self.made.append(("restart", uid, container))

    async def retry(self, uid: PodUID) -> None:
        self.made.append(("retry", uid, ""))

    def stop(self, uid: PodUID, grace_seconds: int) -> None:
        if uid in self.listed:
            raise Conflict("it is not being deleted")
        self.made.append(("stop", uid, str(grace_seconds)))


class FakeImages:
    """The images of a runtime that can be unavailable."""

    def __init__(self) -> None:
        self.runtime_down = False

    async def images(self) -> Sequence[ImageView]:
        if self.runtime_down:
            raise Transient("the runtime is not responding", retry_after=2)
        return [ImageView(id="sha256:abc", repo_tags=("busybox:1",))]

    async def pulls(self) -> Sequence[PullView]:
        return [PullView(image="docker.io/library/busybox:1", phase="downloading", done=Bytes(1), total=Bytes(4))]


class FakeHistory:
    """Timelines of the test, and one container that has ended."""

    def __init__(self, timelines: PodTimelines) -> None:
        self.timelines = timelines
        self.older: list[Event] = []

    def timeline(self, uid: PodUID) -> TimelineView | None:
        return self.timelines.view(uid)

    def ends(self, uid: PodUID) -> Sequence[ContainerEnd]:
        return [
            ContainerEnd(
                container="c", container_id="x://1", exit_code=3, reason="Error", started_at=1.0, finished_at=2.0
            )
        ]

    async def older_events(self, matches: Callable[[Event], bool]) -> Sequence[Event]:
        return [event for event in self.older if matches(event)]


class FakeManifests:
    """One file of manifests; keeps what is applied."""

    def __init__(self) -> None:
        self.applied: list[ApplyRequest] = []

    def files(self) -> ManifestsView:
        web = ManifestView(file="/m/web.yaml", objects=("Pod ns/web",), problems=("/m/web.yaml:1: wrong",))
        return ManifestsView(path="/m", node_name="n1", items=(web,))

    def objects(self) -> Sequence[core.ConfigMap | core.Secret]:
        meta = ObjectMeta(name="s", namespace="ns", labels={"app": "web"})
        return [
            core.ConfigMap(metadata=ObjectMeta(name="c", namespace="ns"), data={"k": "v"}),
            core.Secret(metadata=meta, type="Opaque", data={"password": b"hidden"}),
            core.Secret(metadata=ObjectMeta(name="other", namespace="apart")),
        ]

    def object_views(self) -> Sequence[ObjectView]:
        return [ObjectView(kind="Secret", namespace="ns", name="s", keys=("password",))]

    async def apply(self, request: ApplyRequest) -> ApplyView:
        self.applied.append(request)
        return ApplyView(changes=(ChangeView(label="pod/web", namespace=request.namespace, change="created", uid="u"),))


class FakeNode:
    """The node."""

    async def node(self) -> core.Node:
        return core.Node(metadata=ObjectMeta(name="node-1"), status=core.NodeStatus(capacity={"cpu": "4"}))

    def view(self) -> NodeView:
        secret = ObjectView(kind="Secret", namespace="ns", name="s", keys=("password",))
        return NodeView(name="n", allocatable={"cpu": "2"}, objects=(secret,))

    def version(self) -> VersionView:
        return VersionView(agent="0.1.0", kubernetes="v1.36.0", runtime_name="containerd", runtime_version="1.6")


def explain(uid: PodUID) -> ExplainView | None:
    return ExplainView(namespace="ns", name="web", uid=uid, phase="Running") if uid != "unexplained" else None


def configuration() -> ConfigView:
    return ConfigView(
        files=("/etc/k.yaml",), read_at=1.0, error="port: wrong", error_at=2.0, restart=("port",), fields=()
    )


@dataclass(slots=True)
class FakeStreams:
    """Returns URLs of a streaming server that the test runs."""

    url: str = "http://127.0.0.1:1/none"
    asked: list[tuple[str, str, StreamOptions]] = field(default_factory=list)
    forwards: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)

    async def exec_url(self, container: ContainerID, options: StreamOptions) -> str:
        self.asked.append(("exec", container, options))
        return self.url

    async def attach_url(self, container: ContainerID, options: StreamOptions) -> str:
        self.asked.append(("attach", container, options))
        return self.url

    async def port_forward_url(self, uid: PodUID, ports: Sequence[int]) -> str:
        self.forwards.append((uid, tuple(ports)))
        return self.url


class World:
    """Everything behind the server."""

    def __init__(self, base: Path) -> None:
        self.clock = VirtualClock(NOW)
        self.statuses = SettableStatuses(clock=self.clock, node=NodeFacts())
        self.pods = PodsView(statuses=self.statuses, desired=lambda: (), clock=self.clock)
        self.events = EventLog(clock=self.clock, node_name="node-1", find_pod=lambda uid: self.pods.get(uid))
        self.timelines = PodTimelines(self.clock)
        self.images, self.history, self.manifests = FakeImages(), FakeHistory(self.timelines), FakeManifests()
        self.requests = FakeRequests()
        self.streams = FakeStreams()
        self.asked_ages: list[float | None] = []
        self.faults: dict[str, str | None] = {"ping": None, "pleg": None}
        self.metrics = KubeletMetrics(node_name="node-1", clock=self.clock)
        self.config = LocalConfig(base / "run" / "a.sock", base / "pods")
        self.logs = base / "pods" / "ns_web_uid-1" / "app"
        self.logs.mkdir(parents=True)
        checks = {name: partial(self.faults.get, name) for name in self.faults}
        self.deps = LocalDeps(
            pods=self.pods,
            events=self.events,
            agent=AgentView(
                images=self.images,
                history=self.history,
                manifests=self.manifests,
                node=FakeNode(),
                requests=self.requests,
                explain=explain,
                problems=self._problems,
                configuration=configuration,
            ),
            streams=self.streams,
            checks=checks,
            telemetry=telemetry(self.clock, self.metrics.http),
            usage=self._usage,
        )

    def problems(self) -> Sequence[ProblemView]:
        return [ProblemView(subject="web.yaml", reason="Invalid", message="spec: missing", since=5.0)]

    def _problems(self) -> Sequence[ProblemView]:
        return self.problems()

    async def _usage(self, max_age: float | None) -> Summary:
        self.asked_ages.append(max_age)
        cpu = CpuStats(time=time_from_unix(NOW), usage_nano_cores=250_000_000)
        return Summary(node=NodeStats(node_name="node-1", cpu=cpu), pods=())

    def log(self, *lines: str, attempt: int = 0) -> None:
        """Append lines to a log file."""
        with (self.logs / f"{attempt}.log").open("ab") as file:
            for line in lines:
                file.write(raw(line))

    def set(self, status: core.PodStatus, value: Pod | None = None) -> None:
        """Set the status of the pod."""
        self.statuses.set(value if value is not None else pod(), status)


def open_files() -> int:
    """Return the number of open descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


@dataclass(slots=True)
class RunningServer:
    """A running server, and a client of it."""

    world: World
    client: aiohttp.ClientSession
    stop: Callable[[], object]
    """End the server; clients live on."""

    def post(self, path: str, body: bytes | None = None) -> "aiohttp.client._RequestContextManager":
        return self.client.post(f"http://localhost{path}", data=body)

    def get(self, path: str) -> "aiohttp.client._RequestContextManager":
        return self.client.get(f"http://localhost{path}")


@asynccontextmanager
async def serving(world: World) -> AsyncIterator[RunningServer]:
    """Run the server for the block."""
    server = LocalServer(world.config, world.deps)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(server.run(), name="server")
        waiting = group.create_task(server.serving.wait(), name="serving")
        await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
        try:
            connector = aiohttp.UnixConnector(str(world.config.socket), limit=0)
            async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(20)) as client:
                yield RunningServer(world, client, task.cancel)
        finally:
            task.cancel()
            waiting.cancel()


PODS = "/api/v1/pods"


async def answer(served: RunningServer, path: str) -> Any:
    async with served.get(path) as response:
        assert response.content_type == "application/json"
        return await response.json()


class WatchClient:
    """A watching client."""

    def __init__(self, served: RunningServer, path: str) -> None:
        self._request = served.get(path)

    async def __aenter__(self) -> "WatchClient":
        self._response = await self._request.__aenter__()
        assert self._response.status == 200
        return self

    async def __aexit__(self, *_: object) -> None:
        self._response.close()

    async def next(self) -> tuple[str, str]:
        event = await self.event()
        return event["type"], event["object"]["metadata"]["name"]

    async def event(self) -> Any:
        async with asyncio.timeout(10):
            return json.loads(await self._response.content.readline())

    async def end(self) -> bytes:
        async with asyncio.timeout(10):
            return await self._response.content.read()

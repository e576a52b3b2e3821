"""Test environment: a pod runtime with the fake container runtime and fakes of its other dependencies."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.base.http.http_get import HttpGet
from pykubelet.base.units import GIB, Bytes
from pykubelet.kubelet.actuate.actuate_types import HostMount, ImageFacts
from pykubelet.kubelet.actuate.cgroups.plan.linux_resources import (
    LinuxResources,
    NodePolicy,
    container_resources,
    pod_limits_wanted,
)
from pykubelet.kubelet.actuate.cri import CriOptions
from pykubelet.kubelet.actuate.cri.transport import Transport
from pykubelet.kubelet.actuate.cri_messages.config_types import (
    EnvFile,
    EnvFileValues,
    HostDevice,
    Resolver,
    SecurityConfig,
    UserNamespace,
)
from pykubelet.kubelet.actuate.cri_messages.environment.env_file import parse_env_file
from pykubelet.kubelet.actuate.podruntime import PodInputs, PodRuntime, PodRuntimeConfig, PodRuntimeDeps
from pykubelet.kubelet.actuate.volumes import PodDirs
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID, ref_of
from pykubelet.kubelet.types.outcome import Outcome
from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.kubelet.types.probes import ContainerProbes
from pykubelet.kubelet.types.reports.timeline import Step
from pykubelet.kubelet.types.runtime import ContainerKind, PodRuntimeStatus
from pykubelet.kubelet.types.sysctls import SysctlAllowlist
from pykubelet.linux.cgroups import CgroupResources
from pykubelet.models.core_v1 import ConfigMap, Pod, Secret
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.fake_cri import FakeCri, FakeCriOptions
from pykubelet.testing.meter import RecordingMeter

T = TypeVar("T")
POLICY = NodePolicy(Bytes(4 * GIB), 1)
Probes = Mapping[ContainerID, ContainerProbes]


class InlineExecutor(ThreadPoolExecutor):
    """Runs the work of threads at once, so that virtual time knows about it."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@dataclass
class Images:
    """Images that are all there, unless said otherwise."""

    errors: dict[str, PykubeletError] = field(default_factory=dict)
    """By container."""
    asked: list[str] = field(default_factory=list)
    absent: set[str] = field(default_factory=set)
    """Would have to be pulled."""
    delays: dict[str, float] = field(default_factory=dict)
    clock: VirtualClock | None = None

    async def ensure(self, pod: Pod, container: AnyContainer, kind: ContainerKind) -> str:
        self.asked.append(container.name)
        if self.clock is not None and container.name in self.delays:
            await self.clock.sleep(self.delays[container.name])
        if container.name in self.errors:
            raise self.errors[container.name]
        return container.image

    async def present(self, container: AnyContainer) -> str | None:
        return None if container.name in self.absent else container.image

    async def image_facts(self, ref: str) -> ImageFacts:
        return ImageFacts(ref, uid=1000)


@dataclass
class Volumes:
    """Mounts as told."""

    mounts: tuple[HostMount, ...] = ()
    error: PykubeletError | None = None
    files: dict[EnvFile, str] = field(default_factory=dict)

    def container_devices(self, pod: Pod, container: AnyContainer) -> tuple[HostDevice, ...]:
        return ()

    def extra_groups(self, pod: Pod) -> tuple[int, ...]:
        return ()

    async def container_mounts(
        self, pod: Pod, container: AnyContainer, env: Mapping[str, str]
    ) -> tuple[HostMount, ...]:
        if self.error is not None:
            raise self.error
        return self.mounts

    async def read_files(self, pod: Pod, files: Mapping[EnvFile, Collection[str]]) -> Mapping[EnvFile, EnvFileValues]:
        return {file: parse_env_file(self.files[file], files[file]) for file in files if file in self.files}


@dataclass
class Resources:
    """Cgroups that say what was written to them."""

    limits: CgroupResources | None = None
    """Of the pod's cgroup; None: it has none."""
    memory: int | None = None
    """In use by the pod."""
    written: list[CgroupResources] = field(default_factory=list)

    async def pod_limits(self, pod: Pod) -> CgroupResources | None:
        return self.limits

    def wanted_limits(self, pod: Pod) -> CgroupResources:
        return pod_limits_wanted(pod, POLICY)

    async def set_pod_limits(self, pod: Pod, limits: CgroupResources) -> None:
        self.written.append(limits)

    async def pod_memory(self, pod: Pod) -> Bytes | None:
        return None if self.memory is None else Bytes(self.memory)

    def resized(self, pod: Pod) -> None:
        self.limits = self.wanted_limits(pod)

    def pod_parent(self, pod: Pod) -> str:
        return f"/kubepods/pod{pod.metadata.uid}"

    def pod_resources(self, pod: Pod) -> tuple[LinuxResources, LinuxResources | None]:
        return LinuxResources(cpu_shares=2), None

    def container_resources(self, pod: Pod, container: AnyContainer) -> LinuxResources:
        return container_resources(pod, container, POLICY)


@dataclass
class Node:
    """One node without a cluster."""

    handlers: dict[str, str] = field(default_factory=dict)
    resolver_: Resolver = field(default_factory=lambda: Resolver(("10.0.0.53",), cluster_dns=("10.96.0.10",)))

    def name(self) -> str:
        return "node"

    def ips(self) -> tuple[str, ...]:
        return ("192.0.2.1",)

    def allocatable(self) -> Mapping[str, str]:
        return {"cpu": "2", "memory": "4Gi"}

    def resolver(self) -> Resolver:
        return self.resolver_

    def sysctls(self) -> SysctlAllowlist:
        return SysctlAllowlist.safe()

    def security(self) -> SecurityConfig:
        return SecurityConfig()

    def runtime_handler(self, pod: Pod) -> str:
        name = pod.spec.runtime_class_name
        if name and name not in self.handlers:
            raise NotFound(f'RuntimeClass "{name}" not found')
        return self.handlers[name] if name else ""

    def services(self, pod: Pod) -> Mapping[str, str]:
        return {}


class Users:
    """All pods use the node's ids."""

    async def allocate(self, pod: Pod, handler: str) -> None:
        pass

    def given(self, pod: Pod) -> UserNamespace | None:
        return None


class Objects:
    """There are none."""

    def get_config_map(self, namespace: str, name: str) -> ConfigMap:
        raise NotFound(name)

    def get_secret(self, namespace: str, name: str) -> Secret:
        raise NotFound(name)


@dataclass
class Http:
    """Takes requests of hooks."""

    errors: list[PykubeletError] = field(default_factory=list)
    """Of the next ones."""
    requests: list[HttpGet] = field(default_factory=list)

    async def __call__(self, request: HttpGet) -> None:
        self.requests.append(request)
        if self.errors:
            raise self.errors.pop(0)


@dataclass
class Events:
    """Keeps events as ``Reason[container]: message``."""

    seen: list[str] = field(default_factory=list)

    def event(
        self, pod: PodRef | None, event_type: str, reason: str, message: str, *, container: str = "", **more: object
    ) -> None:
        self.seen.append(f"{reason}{f'[{container}]' if container else ''}: {message}")


@dataclass
class Steps:
    """A timeline that only notes what came."""

    seen: list[str] = field(default_factory=list)

    def pod_seen(self, pod: Pod) -> None: ...

    def begin(self, uid: PodUID, step: Step, container: str = "") -> None:
        self.seen.append(f"+{step} {container}".rstrip())

    def end(self, uid: PodUID, step: Step, container: str = "", error: str = "") -> None:
        self.seen.append(f"-{step} {container}".rstrip() + (f" !{error}" if error else ""))


@dataclass
class World:
    """Everything at hand, and short ways to do the usual things."""

    cri: FakeCri
    clock: VirtualClock
    deps: PodRuntimeDeps
    config: PodRuntimeConfig
    runtime: PodRuntime
    images: Images
    volumes: Volumes
    node: Node
    http: Http
    events: Events
    steps: Steps
    files: PodDirs
    resources: Resources

    @property
    def measured(self) -> list[str]:
        """Lines that the meter has recorded."""
        assert isinstance(self.deps.telemetry.metrics, RecordingMeter)
        return self.deps.telemetry.metrics.lines

    def restart(self) -> None:
        """Simulate an agent that was killed and is started again with the same container runtime."""
        self.deps = replace(self.deps, cri=self.cri.client())
        self.runtime = PodRuntime(self.deps, self.config)

    def runtime_logs(self, pod: Pod) -> Path:
        """The pod's log directory."""
        ref = ref_of(pod)
        return Path(self.config.pod_logs_dir) / f"{ref.namespace}_{ref.name}_{ref.uid}"

    def prepare(self, pod: Pod) -> None:
        """Do the work of the volume manager before a sync."""
        self.files.prepare(ref_of(pod).uid)

    async def status(self, pod: Pod) -> PodRuntimeStatus:
        return await self.runtime.pod_status(ref_of(pod))

    async def sync(self, pod: Pod, results: Probes | None = None) -> Outcome:
        """One sync, as a worker does it."""
        self.prepare(pod)
        return await self.runtime.sync_pod(pod, await self.status(pod), results or {})

    async def settle(self, pod: Pod, results: Probes | None = None, limit: int = 12) -> Outcome:
        """Sync until nothing changes any more; gives the last outcome."""
        for _ in range(limit):
            outcome = await self.sync(pod, results)
            if not outcome.changed:
                return outcome
        raise AssertionError(f"still changing after {limit} syncs")

    async def kill(self, pod: Pod, grace: int | None = None) -> Outcome:
        return await self.runtime.kill_pod(ref_of(pod), pod, await self.status(pod), grace)

    async def during(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """Do something that takes that long in virtual time, no more."""
        task = asyncio.ensure_future(work)
        await self.clock.advance(seconds)
        assert task.done(), f"still busy after {seconds} s"
        return await task

    def running(self) -> list[str]:
        """Names of the containers that run, in the order they were made."""
        return [c.name for c in self.cri.containers if c.running]

    def transport(self, wrap: Callable[[Transport], Transport]) -> None:
        """Put something between the agent and the container runtime."""
        # An agent that is killed does not wait for calls in progress.
        client = self.cri.client(CriOptions(clock=self.clock, patience=0.0))
        client._transport = wrap(client._transport)
        self.deps = replace(self.deps, cri=client)
        self.runtime = PodRuntime(self.deps, self.config)


@asynccontextmanager
async def make_world(root: Path, options: FakeCriOptions | None = None) -> AsyncIterator[World]:
    """A world in an empty directory."""
    asyncio.get_running_loop().set_default_executor(InlineExecutor(1))
    clock = VirtualClock()
    node_hosts = root / "hosts"
    node_hosts.write_text("127.0.0.1 localhost\n")
    config = PodRuntimeConfig(
        pod_logs_dir=str(root / "pods-logs"),
        container_logs_dir=str(root / "containers-logs"),
        node_hosts=str(node_hosts),
    )
    async with FakeCri(clock, options or FakeCriOptions(write_logs=True)) as cri:
        for tag in ("app:1", "app:2"):
            cri.add_image(tag)
        images, volumes, node, http = Images(clock=clock), Volumes(), Node(), Http()
        events, steps, resources = Events(), Steps(), Resources()
        files = PodDirs.at(root / "kubelet")
        deps = PodRuntimeDeps(
            cri=cri.client(),
            images=images,
            inputs=PodInputs(
                volumes=volumes, files=files, resources=resources, node=node, objects=Objects(), users=Users()
            ),
            http=http,
            telemetry=Telemetry(clock=clock, events=events, timeline=steps, metrics=RecordingMeter()),
        )
        runtime = PodRuntime(deps, config)
        yield World(cri, clock, deps, config, runtime, images, volumes, node, http, events, steps, files, resources)

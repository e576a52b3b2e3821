"""The components of sandboxes, with a fake network and fake namespaces that record calls."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast
from unittest.mock import patch

from pykubelet.base.errors import Transient
from pykubelet.criserver.cni import AttachRequest, PodAddresses
from pykubelet.criserver.conmon import Conmon
from pykubelet.criserver.machine import Machine, OomKills
from pykubelet.criserver.netns import NamespaceKind, NamespaceSpec, PinnedNamespaces
from pykubelet.criserver.oci import OciRuntime
from pykubelet.criserver.processes import open_process, reference
from pykubelet.criserver.record_store import Store
from pykubelet.criserver.runtimes import MonitoredRuntime, RuntimeHandlers
from pykubelet.criserver.sandbox import (
    Infra,
    InfraPrograms,
    Sandbox,
    SandboxDeps,
    SandboxLayout,
    SandboxTable,
    SandboxViews,
    build_sandboxes,
)
from pykubelet.criserver.sandbox.plan.requests import needs_infra
from pykubelet.criserver.sandbox.sandbox_interfaces import PauseImages
from pykubelet.criserver.scope import ServerScope
from pykubelet.criserver.types import ProcessRef, SandboxID, UserNamespace
from pykubelet.linux.cgroups import CgroupDriver
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.clock import VirtualClock
from tests.unit.criserver.spec.given import HOST


class FakeNetwork:
    """A network that assigns addresses."""

    def __init__(self) -> None:
        self.attached: dict[SandboxID, AttachRequest] = {}
        self.known: dict[SandboxID, AttachRequest | None] = {}
        self.fail_attach = False
        self.fail_detach = False
        self.broken: set[SandboxID] = set()
        self.used: set[SandboxID] | None = None
        self.go = asyncio.Event()
        self.go.set()

    async def attach(self, request: AttachRequest) -> PodAddresses:
        self.attached[request.sandbox] = request
        await self.go.wait()
        if self.fail_attach:
            raise Transient("no address is free")
        return PodAddresses((f"10.0.0.{len(self.attached)}",))

    async def check(self, sandbox: SandboxID) -> None:
        if sandbox in self.broken:
            raise Transient("eth0 is missing")

    async def detach(self, sandbox: SandboxID, known: AttachRequest | None = None) -> None:
        self.known[sandbox] = known
        if self.fail_detach and sandbox in self.attached:
            raise Transient("DEL failed")
        self.attached.pop(sandbox, None)

    def held(self) -> list[SandboxID]:
        return list(self.attached)

    async def collect_garbage(self, used: Callable[[], Iterable[SandboxID] | None]) -> None:
        """Only note what is used now."""
        found = used()
        self.used = None if found is None else set(found)


class FakeNamespaces:
    """Namespaces that record which sandboxes have some."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.made: dict[SandboxID, NamespaceSpec] = {}

    def path(self, sandbox: SandboxID, kind: NamespaceKind) -> Path:
        return self.directory / sandbox / kind.value

    def known(self) -> list[SandboxID]:
        return list(self.made)

    async def make(self, sandbox: SandboxID, spec: NamespaceSpec) -> None:
        self.made[sandbox] = spec

    async def release(self, sandbox: SandboxID) -> None:
        self.made.pop(sandbox, None)


class FakeContainers:
    """Containers that record the calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def stop_all(self, sandbox: SandboxID) -> None:
        self.calls.append("stop")

    async def remove_all(self, sandbox: SandboxID) -> None:
        self.calls.append("remove")


class FakeInfra:
    """Infra processes that are plain programs of the test."""

    def __init__(self) -> None:
        self.processes: dict[SandboxID, subprocess.Popen[bytes]] = {}
        self.namespaces: dict[str, str] = {}
        self.stops = 0
        self.ends_at_once = False

    async def start(
        self, sandbox: Sandbox, namespaces: dict[str, str], user_namespace: UserNamespace | None
    ) -> ProcessRef:
        self.namespaces = namespaces
        process = self.processes[sandbox.id] = subprocess.Popen(["sleep", "60"])  # noqa: ASYNC220  # it is short
        found = reference(process.pid)
        assert found is not None
        if self.ends_at_once:
            self.kill()
        return found

    async def stop(self, sandbox: Sandbox) -> None:
        self.stops += 1
        self.kill()

    def needed(self, sandbox: Sandbox) -> bool:
        return needs_infra(sandbox.config)

    async def wait(self, sandbox: Sandbox) -> None:
        process = open_process(sandbox.record.infra)
        if process is not None:
            with process:
                await process.wait()

    def kill(self) -> None:
        """Kill all processes."""
        for process in self.processes.values():
            process.kill()
            process.wait()


class Rig:
    """The components of sandboxes with what they use."""

    def __init__(self, directory: Path, store: Store, tasks: asyncio.TaskGroup, infra: FakeInfra | None = None) -> None:
        self.store = store
        self.network = FakeNetwork()
        self.namespaces = FakeNamespaces(directory / "ns")
        self.containers = FakeContainers()
        self.clock = VirtualClock()
        self.scope = ServerScope.of(tasks, self.clock)
        self.directory = directory / "sandboxes"
        table = SandboxTable(monotonic=self.clock.monotonic)
        self.layout = SandboxLayout(namespaces=cast(PinnedNamespaces, self.namespaces), directory=self.directory)
        conmon = Conmon("true", directory)
        runtime = MonitoredRuntime(OciRuntime(program="true", root=directory / "oci", scratch=directory), conmon)
        machine = self.machine = Machine(
            host=HOST,
            cgroups=cast(CgroupDriver, None),
            handlers=RuntimeHandlers(runtimes={"runc": runtime}, default="runc"),
            conmon=conmon,
            oom_kills=cast(OomKills, None),
        )
        self.views = SandboxViews(table=table, layout=self.layout, machine=machine)
        self.sandboxes = build_sandboxes(
            SandboxDeps(
                scope=self.scope,
                store=store,
                machine=machine,
                table=table,
                layout=self.layout,
                network=self.network,
                containers=self.containers,
                infra=self._infra(machine) if infra is None else cast(Infra, infra),
            )
        )

    def _infra(self, machine: Machine) -> Infra:
        """The product's, for pods that do not share a PID namespace."""
        programs = InfraPrograms(node="true")
        return Infra(machine=machine, images=cast(PauseImages, None), layout=self.layout, programs=programs)

    def nothing_left(self) -> bool:
        return not self.namespaces.made and (not self.directory.exists() or not list(self.directory.iterdir()))


@asynccontextmanager
async def rig_in(directory: Path, infra: FakeInfra | None = None) -> AsyncIterator[Rig]:
    store = await Store.open(directory / "state.db")
    try:
        # Mounts need root, and would outlive the test.
        with patch("pykubelet.criserver.sandbox.files.tmpfs"):
            async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
                yield Rig(directory, store, tasks, infra)
    finally:
        await store.close()


def config(name: str = "web") -> pb.PodSandboxConfig:
    """A pod with its own network and the node's shared memory, which needs no root to set up."""
    found = pb.PodSandboxConfig(metadata=pb.PodSandboxMetadata(name=name, namespace="default", uid="u1"), hostname=name)
    options = found.linux.security_context.namespace_options
    options.pid, options.ipc = pb.CONTAINER, pb.NODE
    found.dns_config.servers.append("10.0.0.10")
    return found

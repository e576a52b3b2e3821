"""A kubelet API server on free ports, with fakes for everything that it uses."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import aiohttp
from msgspec.structs import replace

from pykubelet.kubelet.report.timeline import PodTimelines
from pykubelet.kubelet.serve.kubelet_api import (
    AuthConfig,
    CertFiles,
    EffectiveConfig,
    KubeletApiServer,
    KubeletApiServerConfig,
    KubeletApiServerDeps,
    TlsConfig,
)
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.kubelet.types.resources.stats import NodeStats, Summary
from pykubelet.kubelet.types.resources.usage import CgroupUsage, CpuUsage, MachineFacts, Reading, Readings
from pykubelet.models import core_v1 as core
from pykubelet.models.core_v1 import Pod
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.testing.certificates import Authority, IssuedCertificate
from tests.unit.kubelet.report.pods import NOW
from tests.unit.kubelet.serve.kubelet_api.reviews import FakeReviews
from tests.unit.kubelet.serve.local_api.world import FakeStreams, World


class FakeRuntime(FakeStreams):
    """Runs scripted commands."""

    def __init__(self) -> None:
        super().__init__()
        self.commands: list[tuple[str, ...]] = []
        self.answer = (0, b"done\n")
        self.archives: list[Path] = []
        self.checkpoint_error: Exception | None = None

    async def run(self, container: ContainerID, command: Sequence[str]) -> tuple[int, bytes]:
        self.commands.append(tuple(command))
        return self.answer

    async def checkpoint(self, container: ContainerID, archive: Path, timeout: float) -> None:
        assert archive.parent.is_dir()
        if self.checkpoint_error is not None:
            raise self.checkpoint_error
        self.archives.append(archive)

    async def running_pods(self) -> Sequence[Pod]:
        container = core.Container(name="app", image="busybox")
        return [Pod(metadata=ObjectMeta(name="web", uid="uid-1"), spec=core.PodSpec(containers=(container,)))]


class FakeStats:
    """Constant usage figures."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.rates: list[bool] = []
        """Whether a summary was to have CPU usage that takes a second reading."""

    async def summary(self, *, only_cpu_and_memory: bool = False, rates: bool = True) -> Summary:
        self.rates.append(rates)
        return Summary(node=NodeStats(node_name="light" if only_cpu_and_memory else "node-1"), pods=())

    async def readings(self, *, full: bool = True) -> Readings:
        if self.error is not None:
            raise self.error
        machine = MachineFacts(
            machine_id="m",
            system_uuid="s",
            boot_id="b",
            cores=2,
            physical_cores=1,
            sockets=1,
            memory=1 << 30,
            swap=0,
            kernel="6.1",
            os_image="Debian",
        )
        usage = CgroupUsage(path="/", at=NOW, cpu=CpuUsage(total_ns=1_500_000_000))
        return Readings(machine, (Reading(usage=usage),))


class Pki:
    """A certificate authority and its certificates: created once for many tests, since creating keys is slow."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory)
        self.serving = self.authority.issue("node-1", ["node-1", "127.0.0.1"])
        self.admin = self.authority.issue("admin", group="system:masters")


class NodeWorld(World):
    """Everything behind the server; no user is allowed anything until ``reviews.rights`` grants it."""

    def __init__(self, base: Path, pki: Pki) -> None:
        super().__init__(base)
        self.runtime = FakeRuntime()
        self.stats = FakeStats()
        self.reviews = FakeReviews()
        self.pki = pki
        self.authority = pki.authority
        self.base = base
        self.node_logs = base / "var-log"
        self.node_logs.mkdir()
        self.server_config = KubeletApiServerConfig(
            node_name="node-1",
            address="127.0.0.1",
            port=0,
            addresses=("127.0.0.1",),
            pki_dir=base / "pki",
            tls=TlsConfig(client_ca=self.authority.ca),
            auth=AuthConfig(),
            pod_logs_dir=self.config.pod_logs_dir,
            node_logs_dir=self.node_logs,
            checkpoints_dir=base / "checkpoints",
        )
        self.server_deps = KubeletApiServerDeps(
            pods=self.pods,
            runtime=self.runtime,
            stats=self.stats,
            checks={name: partial(self.faults.get, name) for name in self.faults},
            effective=EffectiveConfig(
                configuration=lambda: {"kind": "KubeletConfiguration", "port": 10250},
                flags={"node-name": "node-1"},
            ),
            certificate=lambda: CertFiles(pki.serving.certificate, pki.serving.key),
            reviews=self.reviews,
            telemetry=Telemetry(
                clock=self.clock, events=self.events, timeline=PodTimelines(self.clock), metrics=self.metrics
            ),
        )

    def admin(self) -> IssuedCertificate:
        """A client who may do everything."""
        self.reviews.rights |= {
            ("admin", verb, name)
            for verb in ("get", "create")
            for name in ("proxy", "metrics", "stats", "log", "statusz", "checkpoint")
        }
        return self.pki.admin

    def change(self, **fields: object) -> None:
        """Other settings for the server."""
        self.server_config = replace(self.server_config, **fields)


@dataclass(slots=True)
class Client:
    """Requests to the server, with a client certificate or without."""

    session: aiohttp.ClientSession
    url: str
    context: ssl.SSLContext

    def get(self, path: str, token: str = "") -> "aiohttp.client._RequestContextManager":
        return self.request("GET", path, token)

    def request(self, method: str, path: str, token: str = "") -> "aiohttp.client._RequestContextManager":
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return self.session.request(method, self.url + path, ssl=self.context, headers=headers)


@asynccontextmanager
async def running_server(world: NodeWorld) -> AsyncIterator[KubeletApiServer]:
    """Run the server for the block."""
    server = KubeletApiServer(world.server_config, world.server_deps)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(server.run(), name="server")
        waiting = group.create_task(server.serving.wait(), name="serving")
        await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        try:
            yield server
        finally:
            task.cancel()


@asynccontextmanager
async def client_of(
    world: NodeWorld, server: KubeletApiServer, issued: IssuedCertificate | None = None
) -> AsyncIterator[Client]:
    """Yield a client that trusts the server's certificate."""
    context = ssl.create_default_context(cafile=str(world.authority.ca))
    if issued is not None:
        context.load_cert_chain(issued.certificate, issued.key)
    timeout = aiohttp.ClientTimeout(20)
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        yield Client(session, f"https://127.0.0.1:{server.port}", context)


@asynccontextmanager
async def as_admin(world: NodeWorld) -> AsyncIterator[Client]:
    """Run the server and yield a client with all permissions."""
    issued = world.admin()
    async with running_server(world) as server, client_of(world, server, issued) as client:
        yield client

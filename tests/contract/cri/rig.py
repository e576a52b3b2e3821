"""A runtime under the contract: the objects that a test creates on it, and programs of its containers."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.fake_cri import Script
from pykubelet.testing.traces import remove_cgroups
from pykubelet.testing.wait import until_answer
from tests.manifests import BUSYBOX

ENDPOINT = "PYKUBELET_TEST_CRI_ENDPOINT"
IMAGE = "PYKUBELET_TEST_IMAGE"
HAVE_REAL = {ENDPOINT, IMAGE} <= os.environ.keys()
REAL = [pytest.param("real", marks=pytest.mark.runtime)] if HAVE_REAL else []
"""The real runtime, as a parameter of tests that a fake cannot pass; none if there is no real one."""
MARK = "pykubelet.contract"
"""Label of all objects that the tests create."""
CGROUP = f"pykubelet-contract-{os.getpid()}"
PARENT = os.environ.get("PYKUBELET_TEST_CGROUP_PARENT", f"/{CGROUP}")
"""The cgroup of the pods as the kubelet gives it: with the systemd driver the name of a slice."""


@dataclass(frozen=True)
class Program:
    """A container's command, and the equivalent script of the fake."""

    name: str
    command: tuple[str, ...]
    script: Script


STUBBORN = Program("stubborn", ("sleep", "3600"), Script(stop_after=None))
POLITE = Program(
    "polite",
    ("sh", "-c", "trap 'exit 7' TERM; while :; do sleep 0.05; done"),
    Script(stop_after=0.0, stop_code=7),
)
FAILING = Program(
    "failing", ("sh", "-c", "echo hello; exit 3"), Script(exit_after=0.05, exit_code=3, output=("hello",))
)
SUCCEEDING = Program("succeeding", ("true",), Script(exit_after=0.05))
MISSING = Program("missing", ("/no/such/file",), Script(fail_start="no such file or directory"))
PROGRAMS = (STUBBORN, POLITE, FAILING, SUCCEEDING, MISSING)

SHOUT = ("sh", "-c", "echo out; echo err >&2; exit 5")
SLEEP = ("sleep", "60")


@dataclass
class Runtime:
    """A runtime under test, and the objects that the test has created on it."""

    client: CriClient
    image: str
    logs: Path
    sandboxes: list[SandboxID] = field(default_factory=list)

    def pod_config(self, attempt: int = 0) -> pb.PodSandboxConfig:
        uid = self.logs.name
        return pb.PodSandboxConfig(
            metadata=pb.PodSandboxMetadata(name="pod", namespace="contract", uid=uid, attempt=attempt),
            hostname="pod",
            log_directory=str(self.logs),
            labels={MARK: uid, "attempt": str(attempt)},
            annotations={"contract/note": "kept as it is"},
            linux=pb.LinuxPodSandboxConfig(cgroup_parent=PARENT),
        )

    async def sandbox(self, config: pb.PodSandboxConfig | None = None, handler: str = "") -> SandboxID:
        sandbox = await self.client.run_pod_sandbox(config or self.pod_config(), handler)
        self.sandboxes.append(sandbox)
        return sandbox

    def container_config(self, program: Program, attempt: int = 0) -> pb.ContainerConfig:
        return pb.ContainerConfig(
            metadata=pb.ContainerMetadata(name=program.name, attempt=attempt),
            image=pb.ImageSpec(image=self.image),
            command=program.command,
            labels={MARK: self.logs.name, "program": program.name},
            annotations={"contract/note": "kept as it is"},
            log_path=f"{program.name}-{attempt}.log",
            linux=pb.LinuxContainerConfig(
                resources=pb.LinuxContainerResources(cpu_shares=100),
                # The same configuration as the agent's: the program is process 1, which ignores SIGTERM by default.
                security_context=pb.LinuxContainerSecurityContext(
                    namespace_options=pb.NamespaceOption(pid=pb.CONTAINER)
                ),
            ),
        )

    async def create(self, sandbox: SandboxID, program: Program, attempt: int = 0) -> ContainerID:
        config = self.container_config(program, attempt)
        return await self.client.create_container(sandbox, config, self.pod_config())

    async def start(self, program: Program) -> ContainerID:
        container = await self.create(await self.sandbox(), program)
        await self.client.start_container(container)
        return container

    async def begun(self, container: ContainerID) -> None:
        """Wait until process 1 is the program: just after the start it is still the OCI runtime, which SIGTERM ends."""
        begun = ["grep", "-qE", "^(sleep|sh)$", "/proc/1/comm"]

        async def has_begun() -> bool:
            return (await self.client.exec_sync(container, begun, 10)).exit_code == 0

        await until_answer(has_begun)

    async def status(self, container: ContainerID) -> pb.ContainerStatus:
        return (await self.client.container_status(container)).status

    async def ended(self, container: ContainerID) -> pb.ContainerStatus:
        """Wait until a container has exited by itself; returns its status."""

        async def ended() -> pb.ContainerStatus | None:
            status = await self.status(container)
            return status if status.state == pb.CONTAINER_EXITED else None

        status = await until_answer(ended)
        assert status is not None
        return status

    async def is_ours(self) -> bool:
        """Whether it is ``pykubelet criserver``, which has every feature."""
        return (await self.client.version()).runtime_name == "pykubelet"

    async def clean(self) -> None:
        filter = pb.PodSandboxFilter(label_selector={MARK: self.logs.name})
        for sandbox in await self.client.list_pod_sandboxes(filter):
            await self.client.stop_pod_sandbox(SandboxID(sandbox.id))
            await self.client.remove_pod_sandbox(SandboxID(sandbox.id))


@asynccontextmanager
async def connected(endpoint: str, directory: Path, image: str = BUSYBOX) -> AsyncIterator[Runtime]:
    """The runtime of a socket; what a test creates on it is removed at the end, and so are the cgroups of its pods.

    ``directory`` gets the logs of the pods.
    """
    logs = directory / "logs"
    logs.mkdir()
    async with CriClient.connect(endpoint) as client:
        made = Runtime(client, image, logs)
        try:
            yield made
        finally:
            await made.clean()
            remove_cgroups(CGROUP)

"""A runtime server that dies at chosen steps, and a kubelet in miniature that uses it, for the tests of sudden ends.

The kubelet in miniature brings a pod up and takes it down. It does what any kubelet does after an error: it looks at
what there is and goes on from there.
"""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from pykubelet.base.errors import PykubeletError
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.agent import wait_for
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.leakcheck import Scope, Snapshot, diff, snapshot
from pykubelet.testing.patience import PATIENCE

_PROGRAM = (
    "trap 'exit 0' TERM; echo run >> /notes/$NAME; cd /etc && httpd -p 8080; "
    "while :; do echo tick; sleep 0.3 & wait $!; done"
)
_HOST_ID = 700_000
_IDS = 65536
_LEAK_SECONDS = 5.0 * PATIENCE
NEVER = 1 << 30
"""A step that is not reached."""
Act: TypeAlias = Callable[[CriClient], Awaitable[None]]


@dataclass
class Stage:
    """A server that can be killed."""

    server: PrivateCriServer
    cgroup: str
    directory: Path
    """Where pods write notes."""
    port: int
    """A free port of the node."""
    image: str
    runner: asyncio.Runner
    """One loop for all calls: gRPC keeps something of every loop it has seen."""

    @property
    def scope(self) -> Scope:
        traces = self.server.traces()
        return Scope(
            process_marks=(f"{self.cgroup}/", *traces.process_marks),
            mount_roots=traces.mount_roots,
            netns_directories=traces.netns_directories,
            bridge=self.server.bridge,
            cgroup_parents=(self.cgroup,),
            directories=traces.directories,
        )

    def do(self, act: Act) -> None:
        """Do something with the server."""

        async def work() -> None:
            async with CriClient.connect(self.server.endpoint) as client:
                await act(client)

        self.runner.run(work())

    def killed(self, act: Act, step: int) -> bool:
        """Do something with a server that dies at that step; False when it came through alive."""
        count = self.server.kill_order.with_suffix(".count")
        count.unlink(missing_ok=True)
        self.server.kill_order.write_text(str(step))
        failed = False
        try:
            self.do(act)
        except (PykubeletError, ConnectionError):
            failed = True
        finally:
            self.server.kill_order.unlink(missing_ok=True)
        # The last steps of a call may come after its answer; one may be on its way right now.
        time.sleep(0.02)
        if failed or (count.exists() and int(self.last_step().split()[0]) >= step):
            wait_for(lambda: self.server.pid() is None, 5, self._why_it_lives)
            return True
        return False

    def steps(self, act: Act) -> int:
        """Do something with a server that lives, and count its steps."""
        assert not self.killed(act, NEVER), "the server died by itself"
        return int(self.last_step().split()[0])

    def last_step(self) -> str:
        """The number of the last step that was counted, and what it was."""
        count = self.server.kill_order.with_suffix(".count")
        return count.read_text() if count.exists() else "0 nothing"

    def assert_no_leaks(self, before: Snapshot) -> None:
        """All pods are gone: so is everything of them, but for what is on its way out."""
        deadline = time.monotonic() + _LEAK_SECONDS
        while True:
            leaks = diff(before, snapshot(self.scope))
            if not leaks:
                return
            assert time.monotonic() < deadline, leaks.report()
            time.sleep(0.05)

    def stored(self) -> frozenset[str]:
        """What lies in the stores of images and layers."""
        root = self.server.home / "root"
        return frozenset(str(path) for top in ("images", "storage") for path in (root / top).rglob("*"))

    def commands(self, container: str) -> list[str]:
        """The command lines of a container's processes, for those that should not be there any more."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdecimal() and container.encode() in (entry / "cgroup").read_bytes():
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip())
            except OSError:
                continue  # it has ended meanwhile
        return found

    def _why_it_lives(self) -> str:
        pid = self.server.pid()
        if pid is not None:
            os.kill(pid, signal.SIGUSR1)  # it writes where it hangs
            time.sleep(0.5)
        return f"a call failed, but the server lives: {self.server.log.read_text(errors='replace')[-6000:]}"


class Flavour(StrEnum):
    """What is special about a pod."""

    OWN_PIDS = "own-pids"
    SHARED_PIDS = "shared-pids"
    USER_NAMESPACE = "user-namespace"
    IMAGE_MOUNT = "image-mount"


@dataclass
class Pod:
    """What the miniature kubelet wants, and what the server has acknowledged."""

    stage: Stage
    name: str
    flavour: Flavour = Flavour.OWN_PIDS
    sandbox: str = ""
    created: str = ""
    started: bool = False

    @property
    def container(self) -> ContainerID:
        return ContainerID(self.created)

    @property
    def runs(self) -> int:
        """How often the program has begun."""
        note = self.stage.directory / self.name
        return note.read_text().count("run") if note.exists() else 0

    def assert_ran_once(self) -> None:
        wait_for(lambda: self.runs > 0, 10, lambda: "the program did not begin")
        assert self.runs == 1, f"ran {self.runs} times"

    @property
    def log(self) -> Path:
        return self.stage.directory / "log" / f"{self.name}.log"

    def _options(self) -> pb.NamespaceOption:
        options = pb.NamespaceOption(pid=pb.POD if self.flavour is Flavour.SHARED_PIDS else pb.CONTAINER)
        if self.flavour is Flavour.USER_NAMESPACE:
            options.userns_options.CopyFrom(pb.UserNamespace(mode=pb.POD, uids=[_mapping()], gids=[_mapping()]))
        return options

    def sandbox_config(self) -> pb.PodSandboxConfig:
        return pb.PodSandboxConfig(
            metadata=pb.PodSandboxMetadata(name=self.name, namespace="killed", uid=self.name),
            hostname=self.name,
            log_directory=str(self.stage.directory / "log"),
            port_mappings=[pb.PortMapping(protocol=pb.TCP, container_port=80, host_port=self.stage.port)],
            linux=pb.LinuxPodSandboxConfig(
                cgroup_parent=f"{self.stage.cgroup}/pod",
                security_context=pb.LinuxSandboxSecurityContext(namespace_options=self._options()),
            ),
        )

    def container_config(self) -> pb.ContainerConfig:
        config = pb.ContainerConfig(
            metadata=pb.ContainerMetadata(name="main"),
            image=pb.ImageSpec(image=self.stage.image),
            command=["sh", "-c", _PROGRAM],
            envs=[pb.KeyValue(key="NAME", value=self.name.encode())],
            mounts=[pb.Mount(host_path=str(self.stage.directory), container_path="/notes")],
            log_path=f"{self.name}.log",
            linux=pb.LinuxContainerConfig(
                security_context=pb.LinuxContainerSecurityContext(namespace_options=self._options())
            ),
        )
        if self.flavour is Flavour.USER_NAMESPACE:
            config.mounts[0].uidMappings.append(_mapping())
            config.mounts[0].gidMappings.append(_mapping())
        if self.flavour is Flavour.IMAGE_MOUNT:
            config.mounts.add(container_path="/image", readonly=True, image=pb.ImageSpec(image=self.stage.image))
        return config

    async def make(self, client: CriClient) -> pb.ContainerState.ValueType:
        """Make what there is not of sandbox and container; the container's state."""
        boxes = await client.list_pod_sandboxes()
        ready = [box for box in boxes if box.state == pb.SANDBOX_READY]
        if not ready:
            await client.run_pod_sandbox(self.sandbox_config())
            ready = [box for box in await client.list_pod_sandboxes() if box.state == pb.SANDBOX_READY]
        assert len(ready) == 1, f"doubled: {ready}"
        assert self.sandbox in ("", ready[0].id), f"the acknowledged sandbox {self.sandbox} was lost"
        self.sandbox = ready[0].id
        containers = await client.list_containers()
        if not containers:
            await client.create_container(SandboxID(self.sandbox), self.container_config(), self.sandbox_config())
            containers = await client.list_containers()
        assert len(containers) == 1, f"doubled: {containers}"
        assert self.created in ("", containers[0].id), f"the acknowledged container {self.created} was lost"
        self.created = containers[0].id
        return containers[0].state

    async def up(self, client: CriClient) -> None:
        """Bring it up from wherever it is."""
        if await self.make(client) == pb.CONTAINER_CREATED:
            assert not self.started, "the acknowledged start was lost"
            await client.start_container(self.container)
        status = (await client.container_status(self.container)).status
        assert status.state == pb.CONTAINER_RUNNING, status
        self.started = True

    async def down(self, client: CriClient) -> None:
        """Take it down from wherever it is."""
        for each in await client.list_containers():
            if each.state == pb.CONTAINER_RUNNING:
                await client.stop_container(ContainerID(each.id), 5)
            status = (await client.container_status(ContainerID(each.id))).status
            if self.started:
                assert (status.state, status.exit_code) == (pb.CONTAINER_EXITED, 0), status
            await client.remove_container(ContainerID(each.id))
        for box in await client.list_pod_sandboxes():
            await client.stop_pod_sandbox(SandboxID(box.id))
            await client.remove_pod_sandbox(SandboxID(box.id))
        assert not await client.list_containers()
        assert not await client.list_pod_sandboxes()


def _mapping() -> pb.IDMapping:
    return pb.IDMapping(host_id=_HOST_ID, container_id=0, length=_IDS)

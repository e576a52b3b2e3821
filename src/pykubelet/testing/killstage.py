"""A runtime server that is killed at chosen steps, and a minimal kubelet that uses it, for the tests of recovery.

The minimal kubelet starts a pod and removes it. After an error it does what any kubelet does: it lists the actual state
and continues from there.
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
from pykubelet.testing.wait import until

_PROGRAM = (
    "trap 'exit 0' TERM; grep -q content /volume/given && touch /volume/own || exit 4; "
    "echo run >> /notes/$NAME; cd /etc && httpd -p 8080; "
    "while :; do echo tick; sleep 0.3 & wait $!; done"
)
_HOST_ID = 700_000
_IDS = 65536
_LEAK_SECONDS = 5.0 * PATIENCE
NEVER = 1 << 30
"""Number of a step that is never reached."""
Act: TypeAlias = Callable[[CriClient], Awaitable[None]]


@dataclass
class Stage:
    """A runtime server that can be killed at a chosen step."""

    server: PrivateCriServer
    cgroup: str
    directory: Path
    """Directory to which pods write that they have started."""
    port: int
    """A free port of the node."""
    image: str
    runner: asyncio.Runner
    """One event loop for all calls: gRPC keeps state of every loop that it was used in."""

    @property
    def scope(self) -> Scope:
        traces = self.server.traces()
        return Scope(
            process_marks=(f"{self.cgroup}/", *traces.process_marks),
            mount_roots=traces.mount_roots,
            netns_directories=traces.netns_directories,
            bridge=self.server.bridge,
            cgroup_parents=(self.cgroup,),
            directories=(*traces.directories, str(self.server.home / "root/storage/trash")),
        )

    def do(self, act: Act) -> None:
        """Run an act with a client of the server."""

        async def work() -> None:
            async with CriClient.connect(self.server.endpoint) as client:
                await act(client)

        self.runner.run(work())

    def killed(self, act: Act, step: int) -> bool:
        """Run an act on a server that is killed at that step; False if the act completed before.

        Steps of what the server deletes in the background for earlier calls would be counted with those of the act.
        """
        self.wait_for_deletion()
        count = self.server.kill_order.with_suffix(".count")
        count.unlink(missing_ok=True)
        self.server.kill_order.write_text(str(step))
        failed = False
        try:
            self.do(act)
            self.wait_for_deletion()
        except (PykubeletError, ConnectionError):
            failed = True
        finally:
            self.server.kill_order.unlink(missing_ok=True)
        # The last steps of a call may follow its reply; one may be in progress now.
        time.sleep(0.02)
        if failed or (count.exists() and int(self.last_step().split()[0]) >= step):
            wait_for(lambda: self.server.pid() is None, 5, self._why_it_lives)
            return True
        return False

    def wait_for_deletion(self) -> None:
        """Wait until the server has deleted what is in its trash, or is killed while it does."""
        trash = self.server.home / "root/storage/trash"

        def is_over() -> bool:
            return self.server.pid() is None or not trash.is_dir() or not list(trash.iterdir())

        wait_for(is_over, 60, lambda: f"still in the trash: {[path.name for path in trash.iterdir()]}")

    def steps(self, act: Act) -> int:
        """Run an act on a server that is not killed; returns the number of its steps."""
        assert not self.killed(act, NEVER), "the server died by itself"
        return int(self.last_step().split()[0])

    def last_step(self) -> str:
        """The number and the description of the last step that was counted."""
        count = self.server.kill_order.with_suffix(".count")
        return count.read_text() if count.exists() else "0 nothing"

    def assert_no_leaks(self, before: Snapshot) -> None:
        """AssertionError if anything of the removed pods is left, after a time for removals in progress."""
        deadline = time.monotonic() + _LEAK_SECONDS
        while True:
            leaks = diff(before, snapshot(self.scope))
            if not leaks:
                return
            assert time.monotonic() < deadline, leaks.report()
            time.sleep(0.05)

    def stored(self) -> frozenset[str]:
        """The contents of the stores of images and layers."""
        root = self.server.home / "root"
        return frozenset(str(path) for top in ("images", "storage") for path in (root / top).rglob("*"))

    def commands(self, container: str) -> list[str]:
        """The command lines of a container's processes, to report processes that should have ended."""
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
            os.kill(pid, signal.SIGUSR1)  # it prints its stacks
            time.sleep(0.5)
        return f"a call failed, but the server lives: {self.server.log.read_text(errors='replace')[-6000:]}"


class Flavour(StrEnum):
    """Feature that distinguishes a pod."""

    OWN_PIDS = "own-pids"
    SHARED_PIDS = "shared-pids"
    USER_NAMESPACE = "user-namespace"
    IMAGE_MOUNT = "image-mount"
    NETWORKS = "networks"
    """Of a runtime handler of this name, whose pods have several networks."""


@dataclass
class Pod:
    """The desired pod of the minimal kubelet, and the objects that the server has acknowledged."""

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
        """Number of times that the program has started."""
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
        """Create the sandbox and the container if they do not exist; returns the container's state."""
        boxes = await client.list_pod_sandboxes()
        ready = [box for box in boxes if box.state == pb.SANDBOX_READY]
        if not ready:
            handler = "networks" if self.flavour is Flavour.NETWORKS else ""
            await client.run_pod_sandbox(self.sandbox_config(), handler)
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
        """Start the pod from any state."""
        if await self.make(client) == pb.CONTAINER_CREATED:
            assert not self.started, "the acknowledged start was lost"
            await client.start_container(self.container)
        status = (await client.container_status(self.container)).status
        assert status.state == pb.CONTAINER_RUNNING, status
        self.started = True

    def _ticks(self) -> bool:
        return self.log.exists() and b"tick" in self.log.read_bytes()

    async def down(self, client: CriClient) -> None:
        """Remove the pod from any state."""
        for each in await client.list_containers():
            if each.state == pb.CONTAINER_RUNNING:
                if self.started:
                    # Before, the program may not heed SIGTERM, or end in another way.
                    await until(self._ticks, 20 * PATIENCE)
                await client.stop_container(ContainerID(each.id), 5)
            status = (await client.container_status(ContainerID(each.id))).status
            if self.started:
                stopped = (status.state, status.exit_code) == (pb.CONTAINER_EXITED, 0)
                assert stopped, f"{status}\n{self.log.read_text(errors='replace')[-2000:]}"
            await client.remove_container(ContainerID(each.id))
        for box in await client.list_pod_sandboxes():
            await client.stop_pod_sandbox(SandboxID(box.id))
            await client.remove_pod_sandbox(SandboxID(box.id))
        assert not await client.list_containers()
        assert not await client.list_pod_sandboxes()


def _mapping() -> pb.IDMapping:
    return pb.IDMapping(host_id=_HOST_ID, container_id=0, length=_IDS)

"""The runtime server dies by SIGKILL at each step of each call, and comes back: nothing lost, doubled or leaked.

A kubelet in miniature brings a pod up and takes it down. It does what any kubelet does after an error: it looks at what
there is and goes on from there.
"""

import asyncio
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from pykubelet.base.errors import PykubeletError
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.agent import wait_for
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.leakcheck import Scope, Snapshot, diff, snapshot
from pykubelet.testing.ociimage import ImageSpec
from pykubelet.testing.registry import Registry
from pykubelet.testing.traces import remove_cgroups
from tests.manifests import BUSYBOX

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.slow]

_PROGRAM = "trap 'exit 0' TERM; echo run >> /notes/$NAME; while :; do sleep 60 & wait $!; done"
_LEAK_SECONDS = 5.0


@dataclass
class Stage:
    """A server that can be killed, and what one miniature kubelet knows."""

    server: PrivateCriServer
    cgroup: str
    folder: Path
    port: int
    runner: asyncio.Runner
    """One loop for all calls: gRPC keeps something of every loop it has seen."""

    @property
    def scope(self) -> Scope:
        traces = self.server.traces()
        return Scope(
            process_marks=(f"{self.cgroup}/", *traces.process_marks),
            mount_roots=traces.mount_roots,
            netns_folders=traces.netns_folders,
            cgroup_parents=(self.cgroup,),
            folders=traces.folders,
        )

    def arm(self, step: int) -> None:
        """Have the server die at that step from now on."""
        self.server.kill_order.write_text(str(step))

    def disarm(self) -> None:
        self.server.kill_order.unlink(missing_ok=True)


@dataclass
class Pod:
    """What the miniature kubelet wants, and what the server has acknowledged."""

    stage: Stage
    name: str
    shared_pids: bool = False
    sandbox: str = ""
    created: str = ""
    started: bool = False

    @property
    def runs(self) -> int:
        """How often the program has begun."""
        note = self.stage.folder / self.name
        return note.read_text().count("run") if note.exists() else 0

    def sandbox_config(self) -> pb.PodSandboxConfig:
        options = pb.NamespaceOption(pid=pb.POD if self.shared_pids else pb.CONTAINER)
        return pb.PodSandboxConfig(
            metadata=pb.PodSandboxMetadata(name=self.name, namespace="killed", uid=self.name),
            hostname=self.name,
            log_directory=str(self.stage.folder / "log"),
            port_mappings=[pb.PortMapping(protocol=pb.TCP, container_port=80, host_port=self.stage.port)],
            linux=pb.LinuxPodSandboxConfig(
                cgroup_parent=f"{self.stage.cgroup}/pod",
                security_context=pb.LinuxSandboxSecurityContext(namespace_options=options),
            ),
        )

    def container_config(self) -> pb.ContainerConfig:
        options = pb.NamespaceOption(pid=pb.POD if self.shared_pids else pb.CONTAINER)
        context = pb.LinuxContainerSecurityContext(namespace_options=options)
        return pb.ContainerConfig(
            metadata=pb.ContainerMetadata(name="main"),
            image=pb.ImageSpec(image=BUSYBOX),
            command=["sh", "-c", _PROGRAM],
            envs=[pb.KeyValue(key="NAME", value=self.name.encode())],
            mounts=[pb.Mount(host_path=str(self.stage.folder), container_path="/notes")],
            log_path=f"{self.name}.log",
            linux=pb.LinuxContainerConfig(security_context=context),
        )

    async def up(self, client: CriClient) -> None:
        """Bring it up from wherever it is."""
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
        if containers[0].state == pb.CONTAINER_CREATED:
            assert not self.started, "the acknowledged start was lost"
            await client.start_container(ContainerID(self.created))
        status = (await client.container_status(ContainerID(self.created))).status
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


@pytest.fixture(scope="module")
def stage(isolation: Isolation) -> Iterator[Stage]:
    home = isolation.home / "k"
    made = PrivateCriServer(home, f"{isolation.bridge}k", "10.201.8.0/24", "pykubelet.testing.killpoints")
    cgroup = f"{isolation.cgroup_root}-k"
    try:
        made.write_configuration()
        made.load(ImageSpec(BUSYBOX))
        made.start()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        folder = isolation.home / "notes"
        folder.mkdir()
        with asyncio.Runner() as runner:
            yield Stage(made, cgroup, folder, port, runner)
    finally:
        made.destroy()
        remove_cgroups(cgroup)


Act = Callable[[Pod, CriClient], Awaitable[None]]
_What = TypeVar("_What")


def _do(stage: Stage, act: Callable[[_What, CriClient], Awaitable[None]], pod: _What) -> None:
    async def work() -> None:
        async with CriClient.connect(stage.server.endpoint) as client:
            await act(pod, client)

    stage.runner.run(work())


def _killed(stage: Stage, act: Callable[[_What, CriClient], Awaitable[None]], pod: _What, step: int) -> bool:
    """Do something with a server that dies at that step; False when it came through alive."""
    stage.arm(step)
    try:
        _do(stage, act, pod)
    except PykubeletError:
        wait_for(
            lambda: stage.server.pid() is None, 5, lambda: f"a call failed, but the server lives: {_stacks(stage)}"
        )
        return True
    finally:
        stage.disarm()
    return stage.server.pid() is None


def _stacks(stage: Stage) -> str:
    """Where the server hangs."""
    pid = stage.server.pid()
    if pid is not None:
        os.kill(pid, signal.SIGUSR1)
        time.sleep(0.5)
    return stage.server.log.read_text(errors="replace")[-6000:]


def _steps(stage: Stage) -> int:
    """How many steps were counted since the server was armed."""
    return int(stage.server.kill_order.with_suffix(".count").read_text().split()[0])


def _assert_no_leaks(stage: Stage, before: Snapshot) -> None:
    """All pods are gone: so is everything of them, but for what is on its way out."""
    deadline = time.monotonic() + _LEAK_SECONDS
    while True:
        leaks, ties = diff(before, snapshot(stage.scope)), _network_ties(stage.server.bridge)
        if not leaks and not ties:
            return
        assert time.monotonic() < deadline, f"{leaks.report()}\n{ties}"
        time.sleep(0.05)


def _network_ties(bridge: str) -> list[str]:
    """Devices on the bridge, and firewall rules of its network."""
    ports = Path("/sys/class/net", bridge, "brif")
    rules = subprocess.run(["iptables", "-w", "-t", "nat", "-S"], capture_output=True, text=True, check=True).stdout
    mine = [row for row in rules.splitlines() if f'name: \\"{bridge}\\"' in row]
    return [*(path.name for path in ports.iterdir()), *mine] if ports.is_dir() else mine


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("shared_pids", [False, True], ids=["own-pids", "shared-pids"])
@pytest.mark.parametrize("act", [Pod.up, Pod.down], ids=["up", "down"])
def test_each_step_of(stage: Stage, act: Act, shared_pids: bool, kills: int) -> None:
    """``up``: RunPodSandbox, CreateContainer, StartContainer. ``down``: StopContainer to RemovePodSandbox."""
    before, total = _rehearse(stage, act, shared_pids)
    chosen = sorted(random.sample(range(1, total + 1), min(kills, total)))
    died = 0
    for step in chosen:
        pod = Pod(stage, f"{act.__name__}-{shared_pids}-{step}".lower(), shared_pids)
        if act is Pod.down:
            _do(stage, Pod.up, pod)
            _wait_run(pod)
        died += _killed(stage, act, pod, step)
        stage.server.start()
        if act is Pod.up:
            _do(stage, Pod.up, pod)
        _wait_run(pod)
        assert pod.runs == 1, f"ran {pod.runs} times"
        _do(stage, Pod.down, pod)
        _assert_no_leaks(stage, before)
        print(stage.server.kill_order.with_suffix(".count").read_text())
    print(f"{died} kills at {len(chosen)} of {total} steps: 0 lost, 0 doubled, 0 leaked")
    assert died >= 0.8 * len(chosen), "the steps are counted wrongly"


def _wait_run(pod: Pod) -> None:
    wait_for(lambda: pod.runs > 0, 10, lambda: "the program did not begin")


def _rehearse(stage: Stage, act: Act, shared_pids: bool) -> tuple[Snapshot, int]:
    """What there is without a pod, and how many steps the act has."""
    pod = Pod(stage, f"first-{act.__name__}-{shared_pids}".lower(), shared_pids)
    if act is Pod.down:
        _do(stage, Pod.up, pod)
        _wait_run(pod)
    assert not _killed(stage, act, pod, 1 << 30)
    total = _steps(stage)
    _do(stage, Pod.down, pod)
    return snapshot(stage.scope), total


@pytest.mark.timeout(900)
def test_each_step_of_a_pull(stage: Stage, kills: int, tmp_path: Path) -> None:
    """PullImage with its unpacking; then RemoveImage."""
    files = {f"folder-{number}/file": bytes([number]) * 10_000 for number in range(3)}
    with Registry(tmp_path) as registry:
        image = registry.add("killed", files=files)
        assert not _killed(stage, partial(_pull, image), None, 1 << 30)
        pulling = _steps(stage)
        assert not _killed(stage, partial(_remove, image), None, 1 << 30)
        removing = _steps(stage)
        before = _stored(stage)
        steps = [(_pull, step) for step in range(1, pulling + 1)] + [(_remove, step) for step in range(1, removing + 1)]
        chosen = random.sample(steps, min(kills, len(steps)))
        died = 0
        for act, step in chosen:
            if act is _remove:
                _do(stage, partial(_pull, image), None)
            died += _killed(stage, partial(act, image), None, step)
            stage.server.start()
            _do(stage, partial(act, image), None)
            if act is _pull:
                _do(stage, partial(_remove, image), None)
            print(stage.server.kill_order.with_suffix(".count").read_text())
            wait_for(lambda: _stored(stage) == before, 10, lambda: f"left: {_stored(stage) ^ before}")
    print(f"{died} kills at {len(chosen)} of {len(steps)} steps: 0 lost, 0 leaked")
    assert died >= 0.7 * len(chosen), "the steps are counted wrongly"


async def _pull(image: str, _pod: None, client: CriClient) -> None:
    await client.pull_image(pb.ImageSpec(image=image))
    assert await client.image_status(pb.ImageSpec(image=image)) is not None


async def _remove(image: str, _pod: None, client: CriClient) -> None:
    await client.remove_image(pb.ImageSpec(image=image))
    assert await client.image_status(pb.ImageSpec(image=image)) is None


def _stored(stage: Stage) -> frozenset[str]:
    """What lies in the stores of images and layers, but for what the images of all tests consist of."""
    root = stage.server.home / "root"
    return frozenset(str(path) for top in ("images", "storage") for path in (root / top).rglob("*"))

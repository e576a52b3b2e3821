"""Failures of programs that the runtime server uses: a hanging CNI plugin, no free address, a killed monitor."""

import asyncio
import os
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from pykubelet.base.errors import PykubeletError, Transient
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.agent import wait_for
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.leakcheck import Scope, diff, snapshot
from pykubelet.testing.ociimage import ImageSpec
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.traces import remove_cgroups
from pykubelet.testing.wait import until, until_answer
from tests.manifests import BUSYBOX

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.timeout(240)]

_TIMEOUT = 3.0 * PATIENCE
_ADDRESSES = 5
"""Number of pod addresses of a /29."""
_PLUGIN = """#!{python} -IS
import json, os, pathlib, sys, time
given = json.load(sys.stdin)
order = pathlib.Path({order!r})
command = os.environ["CNI_COMMAND"]
if order.exists() and order.read_text() == command and "K8S_POD_NAME=slow;" in os.environ["CNI_ARGS"]:
    order.with_suffix(".began").touch()
    time.sleep(3600)
if command == "ADD":
    json.dump(given["prevResult"], sys.stdout)
"""

_NOTING = """#!/bin/sh
echo "$@" >> {home}/noted
exec {runtime} "$@"
"""


@pytest.fixture(scope="module")
def server(isolation: Isolation) -> Iterator[PrivateCriServer]:
    """A server with few addresses and a plugin that can be made to hang."""
    home = isolation.home / "p"
    plugins = home / "plugins"
    plugins.mkdir(parents=True)
    cni = {"bin_dirs": [str(plugins), "/usr/lib/cni"], "timeout": _TIMEOUT}
    made = PrivateCriServer(
        home,
        f"{isolation.bridge}p",
        isolation.further_subnet("p", 29),
        cni=cni,
        chained=("sleepy",),
        handlers={"noting": str(home / "noting")},
    )
    (home / "noting").write_text(_NOTING.format(home=home, runtime=shutil.which("runc")))
    (home / "noting").chmod(0o755)
    (plugins / "sleepy").write_text(_PLUGIN.format(python=sys.executable, order=str(home / "hang")))
    (plugins / "sleepy").chmod(0o755)
    try:
        made.write_configuration()
        made.load(ImageSpec(BUSYBOX))
        made.start()
        yield made
    finally:
        made.destroy()
        remove_cgroups(f"{isolation.cgroup_root}-p")


class Pods:
    """The pods that a test creates on the server."""

    def __init__(self, client: CriClient, server: PrivateCriServer, cgroup: str) -> None:
        self.client = client
        self.server = server
        self._cgroup = cgroup

    def config(self, name: str) -> pb.PodSandboxConfig:
        return pb.PodSandboxConfig(
            metadata=pb.PodSandboxMetadata(name=name, namespace="parts", uid=name),
            hostname=name,
            log_directory=str(self.server.home / "logs"),
            linux=pb.LinuxPodSandboxConfig(cgroup_parent=self._cgroup),
        )

    async def run(self, name: str, handler: str = "") -> SandboxID:
        return await self.client.run_pod_sandbox(self.config(name), handler)

    async def start(self, name: str, *command: str, handler: str = "") -> ContainerID:
        config = pb.ContainerConfig(
            metadata=pb.ContainerMetadata(name=name),
            image=pb.ImageSpec(image=BUSYBOX),
            command=command,
            log_path=f"{name}.log",
            linux=pb.LinuxContainerConfig(
                security_context=pb.LinuxContainerSecurityContext(
                    namespace_options=pb.NamespaceOption(pid=pb.CONTAINER)
                )
            ),
        )
        container = await self.client.create_container(await self.run(name, handler), config, self.config(name))
        await self.client.start_container(container)
        return container

    async def remove_all(self) -> None:
        for box in await self.client.list_pod_sandboxes():
            await self.client.stop_pod_sandbox(SandboxID(box.id))
            await self.client.remove_pod_sandbox(SandboxID(box.id))

    async def address(self, sandbox: SandboxID) -> str:
        return (await self.client.pod_sandbox_status(sandbox)).status.network.ip

    def held(self) -> list[str]:
        """Addresses that the IPAM plugin has recorded as allocated."""
        directory = self.server.home / "root" / "ipam" / self.server.bridge
        return (
            sorted(path.name for path in directory.iterdir() if path.name[0].isdecimal()) if directory.is_dir() else []
        )

    def hang(self, command: str) -> None:
        """Make the plugin hang at that command for the pod ``slow``; empty: at no command."""
        (self.server.home / "hang.began").unlink(missing_ok=True)
        (self.server.home / "hang").write_text(command)

    async def hangs(self) -> None:
        """Wait until the plugin hangs."""
        await until((self.server.home / "hang.began").exists)


@pytest.fixture
async def pods(server: PrivateCriServer, isolation: Isolation) -> AsyncIterator[Pods]:
    traces = server.traces()
    scope = Scope(
        process_marks=traces.process_marks,
        mount_roots=traces.mount_roots,
        netns_directories=traces.netns_directories,
        # Other files of the plugins are ignored.
        directories=tuple(directory for directory in traces.directories if not directory.endswith("/ipam")),
    )
    before = snapshot(scope)
    async with CriClient.connect(server.endpoint) as client:
        made = Pods(client, server, f"{isolation.cgroup_root}-p")
        yield made
        made.hang("")
        await made.remove_all()
    wait_for(lambda: not diff(before, snapshot(scope)), 10, lambda: diff(before, snapshot(scope)).report())
    assert made.held() == []


async def test_plugin_that_hangs_in_add_fails_only_its_pod(pods: Pods) -> None:
    """The creation is undone with an error that names the hanging plugin; other pods start meanwhile."""
    pods.hang("ADD")
    begin = time.monotonic()
    slow = asyncio.ensure_future(pods.run("slow"))
    await pods.hangs()
    quick = await pods.run("quick")
    assert not slow.done() and await pods.address(quick)
    with pytest.raises(Transient, match=rf"CNI plugin sleepy \(ADD\) took over {_TIMEOUT:g} s and was killed"):
        await slow
    assert time.monotonic() - begin < _TIMEOUT + 10 * PATIENCE
    assert [box.metadata.name for box in await pods.client.list_pod_sandboxes()] == ["quick"]
    assert pods.held() == [await pods.address(quick)], "the address of the pod that failed is free again"
    pods.hang("")
    assert await pods.address(await pods.run("slow"))


async def test_plugin_that_hangs_in_del_keeps_the_address(pods: Pods) -> None:
    """The stop fails until the plugin succeeds; the address is not allocated again until then."""
    slow = await pods.run("slow")
    address = await pods.address(slow)
    pods.hang("DEL")
    stop = asyncio.ensure_future(pods.client.stop_pod_sandbox(slow))
    await pods.hangs()
    quick = await pods.run("quick")
    assert not stop.done() and await pods.address(quick) != address
    with pytest.raises(Transient, match=rf"CNI plugin sleepy \(DEL\) took over {_TIMEOUT:g} s"):
        await stop
    status = (await pods.client.pod_sandbox_status(slow)).status
    assert status.state == pb.SANDBOX_NOTREADY
    assert address in pods.held()
    pods.hang("")
    # It is retried also without another call.
    wait_for(lambda: address not in pods.held(), 20, lambda: f"held: {pods.held()}")
    await pods.client.stop_pod_sandbox(slow)
    await pods.client.remove_pod_sandbox(slow)


async def test_pod_without_free_address_is_refused(pods: Pods) -> None:
    boxes = [await pods.run(f"pod-{number}") for number in range(_ADDRESSES)]
    taken = [await pods.address(box) for box in boxes]
    assert pods.held() == sorted(taken)
    with pytest.raises(Transient, match="no IP addresses available"):
        await pods.run("one-more")
    assert len(await pods.client.list_pod_sandboxes()) == _ADDRESSES
    await pods.client.stop_pod_sandbox(boxes[2])
    assert await pods.address(await pods.run("one-more")) == taken[2]


async def test_handler_runs_pod_with_its_runtime(pods: Pods) -> None:
    """The handler's program in the configuration runs the pod, also after a restart of the server."""
    noted = pods.server.home / "noted"
    container = await pods.start("special", "sleep", "3600", handler="noting")
    assert "create" in noted.read_text()
    assert (await pods.client.exec_sync(container, ["true"], 20)).exit_code == 0
    assert "exec" in noted.read_text()
    handlers = {each.name for each in (await pods.client.status()).runtime_handlers}
    assert "noting" in handlers
    pods.server.signal(signal.SIGKILL)
    pods.server.start()
    noted.write_text("")
    assert (await pods.client.exec_sync(container, ["true"], 20)).exit_code == 0
    assert "exec" in noted.read_text()
    await pods.start("usual", "sleep", "3600")
    await pods.client.stop_container(container, 0)
    await pods.client.remove_container(container)
    assert container in noted.read_text() and "usual" not in noted.read_text()


def _monitor(server: PrivateCriServer, container: ContainerID) -> int:
    return int((server.home / "run" / "bundles" / container / "conmon.pid").read_text())


@pytest.mark.parametrize("restarted", [False, True], ids=["beside", "while-down"])
async def test_container_with_killed_monitor_keeps_running(pods: Pods, restarted: bool) -> None:
    """The container keeps running and is never lost; its exit is detected, only the exit code is unknown."""
    kept = await pods.start("kept", "sleep", "3600")
    short = await pods.start("short", "sh", "-c", "while [ ! -e /over ]; do sleep 0.05; done; exit 7")
    writer = await pods.start("writer", "sh", "-c", "while echo more; do sleep 0.05; done; exit 9")
    containers = (kept, short, writer)
    if restarted:
        pods.server.signal(signal.SIGKILL)
    for container in containers:
        os.kill(_monitor(pods.server, container), signal.SIGKILL)
    if restarted:
        pods.server.start()
    assert {each.id for each in await pods.client.list_containers()} == set(containers)
    # Its output is not read any more.
    await _ended(pods.client, writer)
    for container in (kept, short):
        assert (await pods.client.container_status(container)).status.state == pb.CONTAINER_RUNNING
    assert (await pods.client.exec_sync(kept, ["true"], 20)).exit_code == 0
    with pytest.raises(PykubeletError, match="monitor"):
        await pods.client.reopen_container_log(kept)
    await pods.client.exec_sync(short, ["touch", "/over"], 20)
    await _ended(pods.client, short)
    await pods.client.stop_container(kept, 0)
    for container in containers:
        status = await _ended(pods.client, container)
        assert (status.exit_code, status.reason) == (255, "Unknown"), status
        assert "its monitor was killed" in status.message and status.finished_at >= status.started_at > 0
        await pods.client.remove_container(container)


async def _ended(client: CriClient, container: ContainerID) -> pb.ContainerStatus:
    async def ended() -> pb.ContainerStatus | None:
        status = (await client.container_status(container)).status
        return status if status.state == pb.CONTAINER_EXITED else None

    status = await until_answer(ended)
    assert status is not None
    return status

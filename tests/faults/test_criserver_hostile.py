"""Unprivileged containers that try to stop the runtime server or to prevent its restart."""

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.linux.system import boot_id
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.agent import environment, wait_for
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.ociimage import ImageSpec
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.traces import remove_cgroups
from pykubelet.testing.wait import until_answer
from tests.manifests import BUSYBOX

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.timeout(240)]

_SERVES = 10.0 * PATIENCE
"""Limit of the seconds that a start may take."""
_UNPRIVILEGED_USER = 65534


@dataclass
class Yard:
    """A server, and one pod in the node's network with unprivileged containers."""

    server: PrivateCriServer
    cgroup: str
    runner: asyncio.Runner
    pods: list[SandboxID] = field(default_factory=list)

    @property
    def logs(self) -> Path:
        """The directory of the pods' logs."""
        return self.server.home / "logs"

    def do(self, act: Callable[[CriClient], Awaitable[object]]) -> None:
        async def work() -> None:
            async with CriClient.connect(self.server.endpoint) as client:
                await act(client)

        self.runner.run(work())

    def restart(self) -> float:
        """Kill the server and restart it; returns the seconds until it serves."""
        self.server.signal(signal.SIGKILL)
        begun = time.monotonic()
        self.server.start()
        return time.monotonic() - begun

    def quarantined(self) -> list[dict[str, str]]:
        """The items that the server has not repaired since its start."""
        found: list[dict[str, str]] = []

        async def ask(client: CriClient) -> None:
            found.extend(json.loads((await client.status(verbose=True)).info["quarantine"]))

        self.do(ask)
        return found

    async def pod(self, client: CriClient, name: str) -> tuple[SandboxID, pb.PodSandboxConfig]:
        config = pb.PodSandboxConfig(
            metadata=pb.PodSandboxMetadata(name=name, namespace="n", uid=name),
            linux=pb.LinuxPodSandboxConfig(cgroup_parent=f"/{self.cgroup}/{name}"),
            log_directory=str(self.logs),
        )
        config.linux.security_context.namespace_options.network = pb.NODE
        made = await client.run_pod_sandbox(config)
        self.pods.append(made)
        return made, config

    async def container(
        self,
        client: CriClient,
        name: str,
        script: str,
        *,
        env: dict[str, str] | None = None,
        host_root: bool = False,
        log: str = "",
    ) -> ContainerID:
        """``host_root``: the container is root in the node's PID namespace, which a pod may request."""
        sandbox, pod = await self.pod(client, name)
        config = pb.ContainerConfig(
            metadata=pb.ContainerMetadata(name=name),
            image=pb.ImageSpec(image=BUSYBOX),
            command=["sh", "-c", script],
            envs=[pb.KeyValue(key=key, value=value.encode()) for key, value in (env or {}).items()],
            log_path=log,
        )
        context = config.linux.security_context
        context.namespace_options.pid = pb.NODE if host_root else pb.CONTAINER
        context.run_as_user.value = 0 if host_root else _UNPRIVILEGED_USER
        context.no_new_privs = True
        container = await client.create_container(sandbox, config, pod)
        await client.start_container(container)
        return container

    async def clear(self, client: CriClient) -> None:
        for sandbox in self.pods:
            await client.stop_pod_sandbox(sandbox)
            await client.remove_pod_sandbox(sandbox)
        self.pods.clear()
        assert not await client.list_containers()
        assert not await client.list_pod_sandboxes()


@pytest.fixture(scope="module")
def yard(isolation: Isolation) -> Iterator[Yard]:
    made = PrivateCriServer(isolation.home / "h", f"{isolation.bridge}h", isolation.further_subnet("h"))
    cgroup = f"{isolation.cgroup_root}-h"
    try:
        made.write_configuration()
        made.load(ImageSpec(BUSYBOX))
        made.start()
        with asyncio.Runner() as runner:
            yield Yard(made, cgroup, runner)
    finally:
        made.destroy()
        remove_cgroups(cgroup)


def test_container_with_invalid_utf8_process_name_is_stopped_and_removed(yard: Yard) -> None:
    script = r"trap 'exit 0' TERM; printf 'caf\303) Z 1 1' > /proc/self/comm; while :; do sleep 0.1; done"

    async def stop(client: CriClient) -> None:
        container = await yard.container(client, "named", script)

        async def has_its_name() -> bool:
            """The kernel discards a SIGTERM that comes before the trap: the program is process 1."""
            return (await client.exec_sync(container, ["grep", "-q", "Z 1 1", "/proc/1/comm"], 10)).exit_code == 0

        await until_answer(has_its_name)
        await client.stop_container(container, 10)
        ended = (await client.container_status(container)).status
        assert (ended.state, ended.exit_code) == (pb.CONTAINER_EXITED, 0)
        await client.remove_container(container)
        await yard.clear(client)

    yard.do(stop)


def test_server_starts_with_container_with_invalid_utf8_process_name(yard: Yard) -> None:
    container = ContainerID("")

    async def begin(client: CriClient) -> None:
        nonlocal container
        container = await yard.container(client, "goes-on", r"printf 'caf\303' > /proc/self/comm; exec sleep 600")
        other = await yard.container(client, "stays", r"printf 'caf\303' > /proc/self/comm; read word < /dev/zero")
        assert other

    async def look(client: CriClient) -> None:
        assert (await client.container_status(container)).status.state == pb.CONTAINER_RUNNING
        await yard.clear(client)

    yard.do(begin)
    assert yard.restart() < _SERVES
    yard.do(look)
    wait_for(lambda: yard.server.pid() is not None, 1, lambda: "the server has ended")


@pytest.mark.parametrize("host_root", [False, True], ids=["unprivileged", "root with the node's processes"])
def test_server_does_not_wait_for_a_container_with_the_mark_of_its_programs(yard: Yard, host_root: bool) -> None:
    name = f"marked-{'root' if host_root else 'user'}"
    former = (yard.server.home / "run" / "marks").read_text().split("\n")[-1]
    script = "while :; do env -i PYKUBELET_CRISERVER=$OLD sleep 0.2 & sleep 0.1; done"

    async def begin(client: CriClient) -> None:
        env = {"PYKUBELET_CRISERVER": former, "OLD": str(yard.server.home / "run" / "tmp")}
        await yard.container(client, name, script, env=env, host_root=host_root)

    async def look(client: CriClient) -> None:
        (container,) = await client.list_containers()
        assert container.state == pb.CONTAINER_RUNNING, "it was taken for a program of the last server"
        await yard.clear(client)

    yard.do(begin)
    assert yard.restart() < _SERVES
    yard.do(look)


def test_container_with_a_file_that_cannot_be_deleted_is_removed(yard: Yard) -> None:
    """Its files stay in the trash, which the status and the doctor show, until the test makes the file mutable."""
    container = ContainerID("")
    storage = yard.server.home / "root" / "storage"

    async def begin(client: CriClient) -> None:
        nonlocal container
        container = await yard.container(client, "immutable", "exec sleep 600")
        await yard.container(client, "neighbour", "exec sleep 600")
        locked = storage / "containers" / container / "upper" / "locked"
        locked.write_bytes(b"")
        _chattr("+i", locked)
        await client.remove_container(container)

    async def look(client: CriClient) -> None:
        pods = await client.list_pod_sandboxes()
        assert len(pods) == 2
        (other,) = await client.list_containers()
        assert other.id != container and other.state == pb.CONTAINER_RUNNING

    with contextlib.ExitStack() as stack:
        stack.callback(lambda: _chattr("-i", *storage.glob("*/*/upper/locked")))
        yard.do(begin)
        for restart in (False, True):
            if restart:
                assert yard.restart() < _SERVES
            yard.do(look)
            wait_for(lambda: bool(yard.quarantined()), 30, lambda: "the tree in the trash is not shown")
            (item,) = yard.quarantined()
            assert item["kind"] == "trash" and item["id"].startswith(container)
            assert "'locked': Operation not permitted" in item["error"]
        doctor = _doctor(yard)
        assert f"trash {container}" in doctor and "of removed containers and images are being deleted" in doctor
    wait_for(lambda: yard.quarantined() == [], 60, lambda: str(yard.quarantined()))
    assert list((storage / "trash").iterdir()) == []
    yard.do(yard.clear)


def test_server_starts_with_images_and_layers_that_cannot_be_used(yard: Yard) -> None:
    """A damaged image, a layer's record that could be read for ever, a worker that hangs in the kernel."""
    root = yard.server.home / "root"
    index, layer, record = root / "images/index.json", root / "storage/layers/900", root / "storage/meta/sha256-12.json"
    known = json.loads(index.read_bytes())
    known["images"].append({"id": "sha256:12", "tags": ["example.com/damaged:1"], "config": 5})
    index.write_text(json.dumps(known))
    os.mkfifo(record)
    layer.mkdir()
    worker = os.open(layer, os.O_RDONLY)
    try:
        fcntl.flock(worker, fcntl.LOCK_SH)
        assert yard.restart() < _SERVES
        found = {f"{item['kind']} {item['id']}": item["error"] for item in yard.quarantined()}
        assert found.keys() == {"image sha256:12", "unused image layer layers/900"}
        assert "a worker of an earlier server still unpacks" in found["unused image layer layers/900"]
        doctor = _doctor(yard)
        assert "image sha256:12" in doctor and "pull example.com/damaged:1 again, then remove the file" in doctor
        assert not record.exists()
        yard.do(lambda client: yard.container(client, "neighbour", "exec sleep 600"))
    finally:
        os.close(worker)
    (root / "images/index.json.quarantine").unlink()
    wait_for(lambda: yard.quarantined() == [], 60, lambda: str(yard.quarantined()))
    assert not layer.exists()
    yard.do(yard.clear)


def _doctor(yard: Yard) -> str:
    command = [sys.executable, "-m", "pykubelet.cli", "doctor", "--container-runtime-endpoint", yard.server.endpoint]
    return subprocess.run(command, capture_output=True, text=True, env=environment()).stdout


def _chattr(flag: str, *paths: Path) -> None:
    subprocess.run(["chattr", flag, *map(str, paths)], check=True)


@pytest.mark.parametrize("server", ["this", "older"])
def test_sandbox_with_namespaces_of_the_node_alone_is_lost_by_a_reboot(yard: Yard, server: str) -> None:
    """Nothing of such a sandbox is missing after a reboot; only the boot id shows that it has ended."""

    async def begin(client: CriClient) -> None:
        config = pb.PodSandboxConfig(metadata=pb.PodSandboxMetadata(name=f"node-{server}", namespace="n", uid=server))
        config.linux.cgroup_parent = f"/{yard.cgroup}/node"
        options = config.linux.security_context.namespace_options
        options.network = options.ipc = pb.NODE
        options.pid = pb.CONTAINER
        yard.pods.append(await client.run_pod_sandbox(config))

    async def look(client: CriClient) -> None:
        (found,) = await client.list_pod_sandboxes()
        assert found.state == expected
        if expected == pb.SANDBOX_NOTREADY:
            await yard.clear(client)

    yard.do(begin)
    expected = pb.SANDBOX_READY
    yard.restart()
    yard.do(look)
    yard.server.signal(signal.SIGKILL)
    _change_boot(yard.server.home / "root", "earlier", noted_in_records=server == "this")
    expected = pb.SANDBOX_NOTREADY
    yard.server.start()
    yard.do(look)


def _change_boot(root: Path, boot: str, *, noted_in_records: bool) -> None:
    """Change the recorded boot id, as if the server had run in an earlier boot."""
    now, then = (f'"boot":"{text}"'.encode() for text in (boot_id(), boot if noted_in_records else ""))
    with contextlib.closing(sqlite3.connect(root / "state.db")) as database, database:
        database.execute("UPDATE facts SET value = ? WHERE name = 'boot'", (boot,))
        for identity, body in database.execute("SELECT id, body FROM sandboxes").fetchall():
            assert now in body
            database.execute("UPDATE sandboxes SET body = ? WHERE id = ?", (body.replace(now, then), identity))


def test_server_starts_with_other_file_types_in_place_of_its_files(yard: Yard) -> None:
    """The server's own files are replaced by other file types, and there are unknown files among those of pods."""
    home, strange = yard.server.home, "f" * 64
    yard.server.signal(signal.SIGKILL)
    (home / "root" / "state.db").unlink()
    (home / "run" / "marks").unlink()
    shutil.rmtree(home / "run" / "tmp")
    for directory in ("root/state.db/below", "run/marks/below", f"root/storage/containers/{strange}/upper/below"):
        (home / directory).mkdir(parents=True)
    for name in ("run/tmp", f"run/exits/{strange}", f"run/bundles/{strange}", f"run/sandboxes/{strange}"):
        (home / name).parent.mkdir(exist_ok=True)
        os.mkfifo(home / name)
    for name in (f"run/ns/{strange}", "root/network/x.json", "root/storage/containers/file"):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_bytes(b"\xff")
    begun = time.monotonic()
    yard.server.start()
    assert time.monotonic() - begun < _SERVES

    async def use(client: CriClient) -> None:
        await yard.container(client, "afterwards", "exec sleep 600")
        await yard.clear(client)

    yard.do(use)


@pytest.mark.parametrize("kind", ["link", "hard link", "fifo", "directory"])
def test_log_is_written_to_a_file_of_its_own_whatever_is_in_its_place(yard: Yard, tmp_path: Path, kind: str) -> None:
    """Another pod with a volume on the directory of logs has put it there, before the start or a rotation."""
    target, log = tmp_path / "target", yard.logs / "trap.log"
    target.write_text("a file of the node\n")

    def put_trap(place: Path) -> None:
        place.unlink(missing_ok=True)
        match kind:
            case "fifo":
                os.mkfifo(place)
            case "directory":
                place.mkdir()
            case _:
                (place.symlink_to if kind == "link" else place.hardlink_to)(target)

    async def logged() -> bool:
        return stat.S_ISREG(log.lstat().st_mode) and "stdout F tick" in log.read_text()

    async def work(client: CriClient) -> None:
        put_trap(log)
        container = await yard.container(client, "trap", "while :; do echo tick; sleep 0.1; done", log=log.name)
        await until_answer(logged)
        put_trap(log)
        put_trap(log.with_name("trap.log.tmp"))  # conmon opens the next log by this name
        await client.reopen_container_log(container)
        await until_answer(logged)
        assert not os.path.lexists(log.with_name("trap.log.tmp"))
        await yard.clear(client)

    yard.logs.mkdir(exist_ok=True)
    yard.do(work)
    assert target.read_text() == "a file of the node\n"


@pytest.mark.parametrize("length", [251, 252, 255])
def test_container_whose_log_has_a_long_name_goes_on_after_a_rotation(yard: Yard, length: int) -> None:
    """conmon, which adds four characters, ends if it cannot open the next log."""
    log = yard.logs / f"{'l' * (length - 4)}.log"
    script = "while :; do echo tick; sleep 0.1; done"

    async def logged() -> bool:
        return "stdout F tick" in log.read_text()

    async def work(client: CriClient) -> None:
        container = await yard.container(client, f"long-{length}", script, log=log.name)
        await until_answer(logged)
        with contextlib.nullcontext() if length <= 251 else pytest.raises(Invalid, match="at most 251 bytes"):
            await client.reopen_container_log(container)
        log.write_text("")
        await until_answer(logged)
        assert (await client.container_status(container)).status.state == pb.CONTAINER_RUNNING
        await yard.clear(client)

    yard.logs.mkdir(exist_ok=True)
    yard.do(work)

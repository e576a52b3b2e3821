"""Kills of the runtime server under an agent: together with the agent, in a reboot, with its clients."""

import asyncio
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pykubelet.base.errors import PykubeletError
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.models.core_v1 import Pod
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.agent import AgentProcess, container_status, is_ready, wait_for
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.nodetraces import NodeTraces
from pykubelet.testing.ociimage import ImageSpec
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.traces import remove_cgroups, remove_mounts
from pykubelet.testing.wait import until
from tests.manifests import BUSYBOX, container, pod

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.timeout(240)]

_ROUNDS = 5
_PAUSE = "localhost/pykubelet/pause:1"
"""Pause image for shared PID namespaces in these tests; other tests use the machine's catatonit."""


@pytest.fixture(scope="module")
def server(isolation: Isolation) -> Iterator[PrivateCriServer]:
    made = PrivateCriServer(
        isolation.home / "d", f"{isolation.bridge}d", isolation.further_subnet("d"), pause_image=_PAUSE
    )
    made.write_configuration()
    made.load(ImageSpec(BUSYBOX))
    init = Path(shutil.which("catatonit") or "catatonit is missing").read_bytes()
    made.load(ImageSpec(_PAUSE, ("-P",), entrypoint=("/init.sh",), files={"init.sh": init}))
    made.start()
    yield made
    made.destroy()


@pytest.fixture
def agent(isolation: Isolation, server: PrivateCriServer) -> Iterator[AgentProcess]:
    made = AgentProcess(isolation.home / "ends", server.endpoint, f"{isolation.cgroup_root}-d")
    made.start()
    traces = NodeTraces(made, server)
    try:
        yield made
        made.remove_all_pods()
        traces.assert_none_left()
        assert made.stop() == 0, made.log_tail()
    finally:
        made.destroy()


def _ids(pods: list[Pod]) -> list[str]:
    return [container_status(each).container_id for each in pods]


def test_pods_survive_simultaneous_kill_of_both_daemons(agent: AgentProcess, server: PrivateCriServer) -> None:
    names = [f"stay-{number}" for number in range(4)]
    for name in names:
        agent.write(f"{name}.json", pod(name))
    before = _ids(agent.wait_running(*names))
    for number in range(_ROUNDS):
        agent.write("moves.json", pod(f"moves-{number}"))
        time.sleep(random.uniform(0, 0.4))
        server.signal(signal.SIGKILL)
        agent.kill()
        server.start()
        agent.start()
        agent.wait_running(f"moves-{number}")
        assert len(agent.pods()) <= len(names) + 2, "pods are doubled"
    assert _ids(agent.wait_running(*names)) == before, "an unchanged pod was restarted"
    assert all(container_status(each).restart_count == 0 for each in agent.pods().values())


def _addresses(server: PrivateCriServer) -> list[str]:
    directory = server.home / "root" / "ipam" / server.bridge
    return sorted(path.name for path in directory.iterdir() if path.name[0].isdecimal())


def test_reboot_restarts_pods_and_keeps_finished_ones(agent: AgentProcess, server: PrivateCriServer) -> None:
    agent.write("always.json", pod("always"))
    agent.write("shared.json", pod("shared", shareProcessNamespace=True))
    agent.write("never.json", pod("never", restartPolicy="Never"))
    agent.write("done.json", pod("done", container(command=["true"]), restartPolicy="Never"))
    running = agent.wait_running("always", "shared", "never")
    agent.wait_pod("done", lambda seen: seen.status.phase == "Succeeded")
    before = dict(zip(("always", "shared", "never"), _ids(running), strict=True))
    server.signal(signal.SIGKILL)
    agent.kill()
    server.kill_containers()
    run = server.home / "run"
    remove_mounts(server.home)
    shutil.rmtree(run)
    assert len(_addresses(server)) >= 3, "the addresses are noted on the disk"
    server.start()
    agent.start()
    for name in ("always", "shared"):
        seen = agent.wait_pod(name, lambda seen: is_ready(seen) and container_status(seen).restart_count == 1)
        assert container_status(seen).container_id != before[name]
        last = container_status(seen).last_state
        assert last is not None
        assert last.terminated is not None
        assert last.terminated.container_id == before[name]
    ended = agent.wait_pod("never", lambda seen: seen.status.phase == "Failed")
    assert container_status(ended).restart_count == 0
    assert agent.pod("done").status.phase == "Succeeded"
    wait_for(lambda: len(_addresses(server)) == 2, 20, lambda: f"addresses are held: {_addresses(server)}")


def _configs(directory: Path) -> tuple[pb.PodSandboxConfig, pb.ContainerConfig]:
    """A pod whose only container records its starts in the directory."""
    sandbox_config = pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(name=directory.name, namespace="n", uid="u"),
        linux=pb.LinuxPodSandboxConfig(cgroup_parent=f"/{directory.name}"),
    )
    options = pb.NamespaceOption(pid=pb.CONTAINER)
    config = pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name="main"),
        image=pb.ImageSpec(image=BUSYBOX),
        command=["sh", "-c", "echo run >> /notes/runs; exec sleep 600"],
        mounts=[pb.Mount(host_path=str(directory), container_path="/notes")],
        linux=pb.LinuxContainerConfig(security_context=pb.LinuxContainerSecurityContext(namespace_options=options)),
    )
    return sandbox_config, config


async def _start_and_vanish(endpoint: str, directory: Path) -> tuple[int, str]:
    """Start a container with a client that disconnects at once; returns its runs and the reply to a second start."""
    sandbox_config, config = _configs(directory)
    async with CriClient.connect(endpoint) as client:
        sandbox = await client.run_pod_sandbox(sandbox_config)
        identity = await client.create_container(sandbox, config, sandbox_config)
        try:
            for attempt in range(10):
                async with CriClient.connect(endpoint) as other:
                    await _state(other, identity)
                    start = asyncio.ensure_future(other.start_container(identity))
                    await asyncio.sleep(0.01 * (attempt + 1))
                start.cancel()
                await asyncio.wait({start})
                if await _comes_to_run(client, identity):
                    break
                # The client had gone before the server began to start the container: again, a little later.
            reported = ""
            try:
                await client.start_container(identity)
            except PykubeletError as error:
                reported = str(error)
            runs = directory / "runs"
            await until(lambda: runs.exists() and runs.stat().st_size, 20)
            return runs.read_text().count("run"), reported
        finally:
            await client.stop_pod_sandbox(sandbox)
            await client.remove_pod_sandbox(sandbox)
            remove_cgroups(f"/{directory.name}")


async def _comes_to_run(client: CriClient, identity: ContainerID) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(2 * PATIENCE):
            while await _state(client, identity) != pb.CONTAINER_RUNNING:  # noqa: ASYNC110  # of another process
                await asyncio.sleep(0.02)
            return True
    return False


async def _state(client: CriClient, identity: ContainerID) -> int:
    return (await client.container_status(identity)).status.state


def test_start_continues_when_its_client_disconnects(server: PrivateCriServer, tmp_path: Path) -> None:
    directory = tmp_path / f"pktest-vanish-{os.getpid()}"
    directory.mkdir()
    runs, reported = asyncio.run(_start_and_vanish(server.endpoint, directory))
    assert runs == 1
    assert "only a created one can be started" in reported


def test_exec_ends_when_its_server_is_killed(agent: AgentProcess, server: PrivateCriServer) -> None:
    agent.write("busy.json", pod("busy", container()))
    before = _ids(agent.wait_running("busy"))
    identity = ContainerID(before[0].partition("://")[2])

    async def execute() -> None:
        async with CriClient.connect(server.endpoint) as client:
            call = asyncio.ensure_future(client.exec_sync(identity, ["sleep", "61"], 60))
            async with asyncio.timeout(10 * PATIENCE):
                while "sleep 61" not in await asyncio.to_thread(agent.exec, "busy", "ps -o args"):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            await asyncio.to_thread(server.signal, signal.SIGKILL)
            with pytest.raises(PykubeletError):
                await call

    asyncio.run(execute())
    begin = time.monotonic()
    server.start()
    assert time.monotonic() - begin < 20 * PATIENCE, "the start waited for a command without a client"
    # The agent reconnects to the server within a second or two; an exec before that is refused.
    wait_for(lambda: agent.cli("exec", "busy", "--", "true").returncode == 0, 20, agent.log_tail)
    assert is_ready(agent.pod("busy"))
    assert "sleep 61" not in agent.exec("busy", "ps -o args")
    assert _ids(agent.wait_running("busy")) == before


async def _gives_user_namespaces(server: PrivateCriServer) -> bool:
    async with CriClient.connect(server.endpoint) as client:
        return any(handler.features.user_namespaces for handler in (await client.status()).runtime_handlers)


async def _is_pinned(server: PrivateCriServer) -> bool:
    async with CriClient.connect(server.endpoint) as client:
        image = await client.image_status(pb.ImageSpec(image=_PAUSE))
        return image is not None and image.pinned


def test_a_pause_image_holds_shared_pids_and_reaps(agent: AgentProcess, server: PrivateCriServer) -> None:
    orphan = container(command=["sh", "-c", "(sleep 0.5 &); exec sleep 600"])
    pods = {"paused": pod("paused", orphan, shareProcessNamespace=True)}
    if asyncio.run(_gives_user_namespaces(server)):
        pods["mapped"] = pod("mapped", orphan, shareProcessNamespace=True, hostUsers=False)
    for name, wanted in pods.items():
        agent.write(f"{name}.json", wanted)
    before = _ids(agent.wait_running(*pods))

    def shown() -> list[str]:
        return [agent.exec(name, "ps -o pid,stat,args") for name in pods]

    wait_for(lambda: not any("sleep 0.5" in each or " Z" in each for each in shown()), 20, lambda: str(shown()))
    assert all("1 S    /init.sh -P" in each for each in shown())
    if "mapped" in pods:
        assert agent.exec("mapped", "cat /proc/1/uid_map").split()[1] != "0"
    assert asyncio.run(_is_pinned(server))
    server.signal(signal.SIGKILL)
    server.start()
    wait_for(lambda: all(agent.cli("exec", name, "--", "true").returncode == 0 for name in pods), 20, agent.log_tail)
    assert _ids(agent.wait_running(*pods)) == before
    notes = list((server.home / "run" / "sandboxes").glob("*/infra/pid"))
    infra = [int(note.read_text()) for note in notes]
    assert len(infra) == len(pods)
    for pid in infra:
        os.kill(pid, signal.SIGTERM)
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in infra), 10, agent.log_tail)


def _spoil(server: PrivateCriServer, how: str) -> None:
    path = server.home / "root" / "state.db"
    match how:
        case "garbage":
            path.write_bytes(random.Random(1).randbytes(20_000))
        case "half":
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        case "empty":
            path.write_bytes(b"")
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def test_damaged_database_does_not_affect_containers(agent: AgentProcess, server: PrivateCriServer) -> None:
    agent.write("own.json", pod("own"))
    agent.write("shared.json", pod("shared", shareProcessNamespace=True))
    before, addresses = _ids(agent.wait_running("own", "shared")), _addresses(server)
    reported = server.log.read_text().count("restored from the copies")
    for how in ("garbage", "half", "empty"):
        server.signal(signal.SIGKILL)
        _spoil(server, how)
        for file in (server.home / "root" / "network").glob("*.json"):
            file.write_bytes(b'{"request":{"sandbox":"')
        server.start()
        reported += 1
        assert server.log.read_text().count("restored from the copies") == reported
        wait_for(lambda: agent.cli("exec", "own", "--", "true").returncode == 0, 20, agent.log_tail)
        assert _ids(agent.wait_running("own", "shared")) == before
        assert all(container_status(each).restart_count == 0 for each in agent.pods().values())
        assert _addresses(server) == addresses
    assert "kept_as=" in server.log.read_text()
    assert list((server.home / "root").glob("state.db.damaged-*"))


def test_running_container_without_record_is_not_removed(server: PrivateCriServer, tmp_path: Path) -> None:
    directory = tmp_path / f"pktest-unknown-{os.getpid()}"
    directory.mkdir()
    sandbox_config, config = _configs(directory)

    async def make() -> tuple[str, str]:
        async with CriClient.connect(server.endpoint) as client:
            sandbox = await client.run_pod_sandbox(sandbox_config)
            identity = await client.create_container(sandbox, config, sandbox_config)
            server.signal(signal.SIGKILL)
            server.start()
        async with CriClient.connect(server.endpoint) as client:
            # The replies were lost: a retry gets the existing object.
            assert await client.run_pod_sandbox(sandbox_config) == sandbox
            assert await client.create_container(sandbox, config, sandbox_config) == identity
            await client.start_container(identity)
        return sandbox, identity

    async def shown() -> list[str]:
        async with CriClient.connect(server.endpoint) as client:
            containers, sandboxes = await client.list_containers(), await client.list_pod_sandboxes()
            return [*(each.id for each in containers), *(each.id for each in sandboxes)]

    sandbox, identity = asyncio.run(make())
    run, root = server.home / "run", server.home / "root"
    places = [run / "bundles" / identity, run / "sandboxes" / sandbox, run / "ns" / sandbox, root / "network"]
    pid, held = int((places[0] / "pid").read_text()), _addresses(server)
    server.signal(signal.SIGKILL)
    _spoil(server, "garbage")
    shutil.rmtree(root / "records")
    for _ in range(2):  # the second start finds a valid file, and a container that is not in it
        server.start()
        assert asyncio.run(shown()) == []
        assert "container without a record: not removed" in server.log.read_text()
        assert Path(f"/proc/{pid}/root/notes/runs").read_text() == "run\n"
        assert all(list(place.iterdir()) for place in places)
        assert _addresses(server) == held
        server.signal(signal.SIGKILL)
    for place in (places[0], places[1] / "infra"):
        for note in ("conmon.pid", "pid"):
            os.kill(int((place / note).read_text()), signal.SIGKILL)
    server.start()
    wait_for(lambda: not any(place.exists() for place in places[:3]), 20, lambda: server.log.read_text()[-2000:])
    wait_for(lambda: not list(places[3].iterdir()) and sandbox not in str(_addresses(server)), 10, server.log.read_text)
    remove_cgroups(f"/{directory.name}")

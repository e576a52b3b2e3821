"""The sandbox manager, with a fake network and fake namespaces that record calls."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast
from unittest.mock import patch

import pytest

from pykubelet.base.errors import Conflict, Invalid, NotFound, Permanent, Transient
from pykubelet.criserver.cni import Attached, AttachRequest
from pykubelet.criserver.conmon import Conmon
from pykubelet.criserver.events import EventHub
from pykubelet.criserver.netns import Kind, NamespaceSpec, PinnedNamespaces
from pykubelet.criserver.oci import OciRuntime
from pykubelet.criserver.repairs import Repairs
from pykubelet.criserver.sandbox import SandboxDeps, SandboxDirectories, SandboxManager, SandboxRecovery
from pykubelet.criserver.sandbox.interfaces import PauseImages
from pykubelet.criserver.store import Store
from pykubelet.criserver.types import ProtectedIds, SandboxID, SandboxPhase
from pykubelet.linux.cgroups import CgroupDriver
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.wait import until
from tests.unit.criserver.spec.given import HOST


class FakeNetwork:
    """A network that assigns addresses."""

    def __init__(self) -> None:
        self.attached: dict[SandboxID, AttachRequest] = {}
        self.known: dict[SandboxID, AttachRequest | None] = {}
        self.fail_attach = False
        self.fail_detach = False
        self.broken: set[SandboxID] = set()
        self.go = asyncio.Event()
        self.go.set()

    async def attach(self, request: AttachRequest) -> Attached:
        self.attached[request.sandbox] = request
        await self.go.wait()
        if self.fail_attach:
            raise Transient("no address is free")
        return Attached((f"10.0.0.{len(self.attached)}",))

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


class FakeNamespaces:
    """Namespaces that record which sandboxes have some."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.made: dict[SandboxID, NamespaceSpec] = {}

    def path(self, sandbox: SandboxID, kind: Kind) -> Path:
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


class Rig:
    """A sandbox manager with its dependencies."""

    def __init__(self, directory: Path, store: Store, tasks: asyncio.TaskGroup) -> None:
        self.store = store
        self.network = FakeNetwork()
        self.namespaces = FakeNamespaces(directory / "ns")
        self.containers = FakeContainers()
        self.clock = VirtualClock()
        self.directory = directory / "sandboxes"
        deps = SandboxDeps(
            store=store,
            namespaces=cast(PinnedNamespaces, self.namespaces),
            network=self.network,
            containers=self.containers,
            images=cast(PauseImages, None),
            runtimes={"runc": OciRuntime("true", directory / "oci", directory)},
            default_handler="runc",
            conmon=Conmon("true", directory),
            cgroups=cast(CgroupDriver, None),
            events=EventHub(),
            host=HOST,
            directories=SandboxDirectories(self.directory, "true"),
            tasks=tasks,
            clock=self.clock,
        )
        self.manager = SandboxManager(deps)
        self.repairs = Repairs(tasks, self.clock)
        self.recovery = SandboxRecovery(self.manager, deps, self.repairs)

    def nothing_left(self) -> bool:
        return not self.namespaces.made and (not self.directory.exists() or not list(self.directory.iterdir()))


@asynccontextmanager
async def rig_in(directory: Path) -> AsyncIterator[Rig]:
    store = await Store.open(directory / "state.db")
    try:
        # Mounts need root, and would outlive the test.
        with patch("pykubelet.criserver.sandbox.files.tmpfs"):
            async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
                yield Rig(directory, store, tasks)
    finally:
        await store.close()


def config(name: str = "web") -> pb.PodSandboxConfig:
    """A pod with its own network and the node's shared memory, which needs no root to set up."""
    found = pb.PodSandboxConfig(metadata=pb.PodSandboxMetadata(name=name, namespace="default", uid="u1"), hostname=name)
    options = found.linux.security_context.namespace_options
    options.pid, options.ipc = pb.CONTAINER, pb.NODE
    found.dns_config.servers.append("10.0.0.10")
    return found


async def test_sandbox_life_cycle(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        identity = await rig.manager.run(config(), "")
        sandbox = rig.manager.get(identity[:10])
        assert sandbox.record.phase is SandboxPhase.READY
        assert sandbox.record.ips == ("10.0.0.1",)
        assert (rig.directory / identity / "etc/resolv.conf").read_text() == "nameserver 10.0.0.10\n"
        assert (rig.directory / identity / "etc/hostname").read_text() == "web\n"
        view = rig.manager.view(identity)
        assert view.namespaces == {
            "network": str(tmp_path / "ns" / identity / "network"),
            "uts": str(tmp_path / "ns" / identity / "uts"),
        }
        asked = rig.network.attached[identity]
        await rig.manager.stop(identity)
        assert rig.network.known == {identity: asked}
        rig.network.known.clear()
        await rig.manager.stop(identity)
        assert rig.network.known == {}, "there is nothing left to detach"
        stopped = rig.manager.get(identity).record
        assert (stopped.phase.value, stopped.ips) == ("stopped", ())
        with pytest.raises(Permanent, match="not ready"):
            rig.manager.view(identity)
        for _ in range(2):
            await rig.manager.remove(identity)
        with pytest.raises(NotFound):
            rig.manager.get(identity)
        assert rig.nothing_left()
        assert rig.network.attached == {}
        assert (await rig.store.load())[0] == []


async def test_sandbox_name_is_unique(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        identity = await rig.manager.run(config(), "runc")
        # A client that has not heard of it asks again.
        assert await rig.manager.run(config(), "") == identity
        assert len(rig.network.attached) == 1
        other = config()
        other.labels["changed"] = "yes"
        with pytest.raises(Conflict, match=f"is reserved for sandbox {identity}"):
            await rig.manager.run(other, "runc")
        await rig.manager.stop(identity)
        with pytest.raises(Conflict, match=f"is reserved for sandbox {identity}, which is stopped"):
            await rig.manager.run(config(), "runc")
        await rig.manager.remove(identity)
        assert await rig.manager.run(config(), "runc") != identity


@pytest.mark.parametrize("handler", ["kata", "no-such"])
async def test_unknown_runtime_handler_is_invalid(tmp_path: Path, handler: str) -> None:
    async with rig_in(tmp_path) as rig:
        with pytest.raises(Invalid, match=handler):
            await rig.manager.run(config(), handler)
        assert (await rig.store.load())[0] == []


async def test_a_failed_creation_is_undone(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        rig.network.fail_attach = True
        with pytest.raises(Transient, match="no address"):
            await rig.manager.run(config(), "")
        assert rig.nothing_left()
        assert rig.network.attached == {}
        assert (await rig.store.load())[0] == []
        rig.network.fail_attach = False
        await rig.manager.run(config(), "")


async def test_a_cancelled_creation_is_undone(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        rig.network.go.clear()
        call = asyncio.ensure_future(rig.manager.run(config(), ""))
        await until(lambda: rig.network.attached)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert rig.nothing_left()
        assert (await rig.store.load())[0] == []


async def test_address_that_cannot_be_released_is_retried(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        identity = await rig.manager.run(config(), "")
        rig.network.fail_detach = True
        for call in (rig.manager.stop, rig.manager.remove):
            with pytest.raises(Transient, match="DEL failed"):
                await call(identity)
        assert rig.manager.get(identity).record.phase is SandboxPhase.STOPPED
        retries = asyncio.ensure_future(rig.recovery.retry_network())
        await rig.clock.settle()
        assert rig.network.held() == [identity]
        rig.network.fail_detach = False
        await rig.clock.advance(5)
        assert rig.network.held() == []
        retries.cancel()
        await rig.manager.remove(identity)


async def test_address_whose_release_fails_does_not_delay_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig_in(tmp_path) as rig:
        tried: list[SandboxID] = []

        async def detach(sandbox: SandboxID) -> None:
            tried.append(sandbox)
            if sandbox == "bad":
                raise OSError(5, "Input/output error")

        monkeypatch.setattr(rig.network, "detach", detach)
        monkeypatch.setattr(rig.network, "held", lambda: [SandboxID("bad"), SandboxID("good")])
        rig.manager.leftovers.set()
        retries = asyncio.ensure_future(rig.recovery.retry_network())
        await rig.clock.settle()
        assert tried == ["bad", "good"]
        await rig.clock.advance(2)
        assert tried == ["bad", "good"] * 2
        retries.cancel()


async def test_address_of_a_failed_creation_is_released_later(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        retries = asyncio.ensure_future(rig.recovery.retry_network())
        rig.network.fail_attach = rig.network.fail_detach = True
        with pytest.raises(Transient, match="no address is free"):
            await rig.manager.run(config("unlucky"), "")
        await rig.clock.settle()
        assert len(rig.network.held()) == 1
        rig.network.fail_detach = False
        await rig.clock.advance(5)
        assert rig.network.held() == []
        retries.cancel()


async def test_address_retry_after_others_were_released_has_a_short_delay(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        retries = asyncio.ensure_future(rig.recovery.retry_network())
        for name, failing, soon in (("long", 100, 70), ("short", 0, 5)):
            identity = await rig.manager.run(config(name), "")
            rig.network.fail_detach = True
            with pytest.raises(Transient, match="DEL failed"):
                await rig.manager.stop(identity)
            await rig.clock.settle()
            await rig.clock.advance(failing)
            rig.network.fail_detach = False
            await rig.clock.advance(soon)
            assert rig.network.held() == []
            await rig.manager.remove(identity)
        retries.cancel()


async def test_next_server_undoes_partial_sandboxes_and_orphans(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        whole = await rig.manager.run(config("whole"), "")
        rig.network.go.clear()
        cut = asyncio.ensure_future(rig.manager.run(config("cut"), ""))
        await until(lambda: len(rig.network.attached) >= 2)
        records = (await rig.store.load())[0]
        assert {record.phase for record in records} == {SandboxPhase.READY, SandboxPhase.MAKING}
        again = Rig(tmp_path, rig.store, rig.manager._deps.tasks)
        again.namespaces.made = {SandboxID("stray"): NamespaceSpec(())}
        (again.directory / "stray").mkdir()
        again.recovery.recover(records)
        await again.recovery.clean_up(ProtectedIds())
        await again.repairs.wait_for_first_attempts(30)
        assert [sandbox.id for sandbox in again.manager.all()] == [whole]
        # Its namespaces are files here and no mounts, so the pod is not whole any more.
        assert again.manager.get(whole).record.phase is SandboxPhase.STOPPED
        assert [path.name for path in again.directory.iterdir()] == [whole]
        assert again.namespaces.made == {}
        cut.cancel()
        await asyncio.gather(cut, return_exceptions=True)


async def test_run_retried_after_a_restart_returns_the_first_sandbox(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        first = await rig.manager.run(config(), "")
        again = Rig(tmp_path, rig.store, rig.manager._deps.tasks)
        again.recovery.recover((await rig.store.load())[0])
        assert await again.manager.run(config(), "runc") == first
        assert again.network.attached == {}


@pytest.mark.parametrize("everything", [False, True])
async def test_protected_sandboxes_are_not_removed(tmp_path: Path, everything: bool) -> None:
    async with rig_in(tmp_path) as rig:
        lost, gone = [await rig.manager.run(config(name), "") for name in ("lost", "gone")]
        again = Rig(tmp_path, rig.store, rig.manager._deps.tasks)
        again.namespaces.made = dict(rig.namespaces.made)
        again.network.attached = dict(rig.network.attached)
        # No record speaks of either.
        again.recovery.recover([])
        await again.recovery.clean_up(ProtectedIds(frozenset({lost}), everything))
        await again.repairs.wait_for_first_attempts(30)
        retries = asyncio.ensure_future(again.recovery.retry_network())
        await again.clock.settle()
        left = {lost, gone} if everything else {lost}
        assert set(again.namespaces.made) == left
        assert set(again.network.attached) == left
        assert {path.name for path in again.directory.iterdir()} == left
        retries.cancel()


async def test_update_records_the_resources_of_a_pod(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        identity = await rig.manager.run(config(), "")
        await rig.manager.update(
            identity,
            pb.LinuxContainerResources(cpu_shares=3),
            pb.LinuxContainerResources(memory_limit_in_bytes=1 << 20),
        )
        (record,), _ = await rig.store.load()
        linux = pb.PodSandboxConfig.FromString(record.config).linux
        assert (linux.overhead.cpu_shares, linux.resources.memory_limit_in_bytes) == (3, 1 << 20)
        assert rig.manager.get(identity).config.linux == linux
        await rig.manager.stop(identity)
        with pytest.raises(Permanent, match="not ready"):
            await rig.manager.update(identity, linux.overhead, linux.resources)
        await rig.manager.remove(identity)
        with pytest.raises(NotFound):
            await rig.manager.update(identity, linux.overhead, linux.resources)


async def test_network_problem_reports_the_failed_check(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        identity = await rig.manager.run(config(), "")
        sandbox = rig.manager.get(identity)
        assert await rig.manager.network_problem(sandbox) == ""
        rig.network.broken.add(identity)
        assert await rig.manager.network_problem(sandbox) == "eth0 is missing"
        await rig.manager.stop(identity)
        assert await rig.manager.network_problem(sandbox) == ""
        await rig.manager.remove(identity)


async def test_user_namespaces_without_host_support_are_rejected(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        wanted = config()
        options = wanted.linux.security_context.namespace_options
        options.ipc = pb.POD
        options.userns_options.uids.add(host_id=100000, length=65536)
        options.userns_options.gids.add(host_id=100000, length=65536)
        with pytest.raises(Permanent, match="user namespaces are not supported here"):
            await rig.manager.run(wanted, "")
        assert rig.nothing_left()
        assert (await rig.store.load())[0] == []

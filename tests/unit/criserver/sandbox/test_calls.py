"""The calls on sandboxes, with a fake network and fake namespaces that record calls."""

import asyncio
import secrets
from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Conflict, Invalid, NotFound, Permanent, Transient
from pykubelet.criserver.netns import NamespaceSpec
from pykubelet.criserver.types import ProtectedIds, SandboxID, SandboxPhase
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.wait import until
from tests.unit.criserver.sandbox import rig as sandbox_rig
from tests.unit.criserver.sandbox.rig import Rig, config, rig_in
from tests.unit.criserver.spec.given import HOST


async def test_sandbox_life_cycle_is_recorded_with_its_files_and_network(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        identity = await rig.sandboxes.runner.run(config(), "")
        sandbox = rig.sandboxes.table.get(identity[:10])
        assert sandbox.record.phase is SandboxPhase.READY
        assert sandbox.record.ips == ("10.0.0.1",)
        assert (rig.directory / identity / "etc/resolv.conf").read_text() == "nameserver 10.0.0.10\n"
        assert (rig.directory / identity / "etc/hostname").read_text() == "web\n"
        view = rig.views.view(identity)
        assert view.namespaces == {
            "network": str(tmp_path / "ns" / identity / "network"),
            "uts": str(tmp_path / "ns" / identity / "uts"),
        }
        asked = rig.network.attached[identity]
        await rig.sandboxes.stopper.stop(identity)
        assert rig.network.known == {identity: asked}
        rig.network.known.clear()
        await rig.sandboxes.stopper.stop(identity)
        assert rig.network.known == {}, "there is nothing left to detach"
        stopped = rig.sandboxes.table.get(identity).record
        assert (stopped.phase.value, stopped.ips) == ("stopped", ())
        with pytest.raises(Permanent, match="not ready"):
            rig.views.view(identity)
        for _ in range(2):
            await rig.sandboxes.remover.remove(identity)
        with pytest.raises(NotFound):
            rig.sandboxes.table.get(identity)
        assert rig.nothing_left()
        assert rig.network.attached == {}
        assert (await rig.store.load())[0] == []


async def test_sandbox_name_is_unique(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        identity = await rig.sandboxes.runner.run(config(), "runc")
        # A client that has not heard of it asks again.
        assert await rig.sandboxes.runner.run(config(), "") == identity
        assert len(rig.network.attached) == 1
        other = config()
        other.labels["changed"] = "yes"
        with pytest.raises(Conflict, match=f"is reserved for sandbox {identity}"):
            await rig.sandboxes.runner.run(other, "runc")
        await rig.sandboxes.stopper.stop(identity)
        with pytest.raises(Conflict, match=f"is reserved for sandbox {identity}, which is stopped"):
            await rig.sandboxes.runner.run(config(), "runc")
        await rig.sandboxes.remover.remove(identity)
        assert await rig.sandboxes.runner.run(config(), "runc") != identity


@pytest.mark.parametrize("handler", ["kata", "no-such"])
async def test_unknown_runtime_handler_is_invalid(tmp_path: Path, handler: str) -> None:
    async with rig_in(tmp_path) as rig:
        with pytest.raises(Invalid, match=handler):
            await rig.sandboxes.runner.run(config(), handler)
        assert (await rig.store.load())[0] == []


async def test_a_failed_creation_is_undone(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        rig.network.fail_attach = True
        with pytest.raises(Transient, match="no address"):
            await rig.sandboxes.runner.run(config(), "")
        assert rig.nothing_left()
        assert rig.network.attached == {}
        assert (await rig.store.load())[0] == []
        rig.network.fail_attach = False
        await rig.sandboxes.runner.run(config(), "")


async def test_a_cancelled_creation_is_undone(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        rig.network.go.clear()
        call = asyncio.ensure_future(rig.sandboxes.runner.run(config(), ""))
        await until(lambda: rig.network.attached)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert rig.nothing_left()
        assert (await rig.store.load())[0] == []


async def test_address_that_cannot_be_released_is_retried(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        identity = await rig.sandboxes.runner.run(config(), "")
        rig.network.fail_detach = True
        for call in (rig.sandboxes.stopper.stop, rig.sandboxes.remover.remove):
            with pytest.raises(Transient, match="DEL failed"):
                await call(identity)
        assert rig.sandboxes.table.get(identity).record.phase is SandboxPhase.STOPPED
        retries = asyncio.ensure_future(rig.sandboxes.attachments.release_leftovers())
        await rig.clock.settle()
        assert rig.network.held() == [identity]
        rig.network.fail_detach = False
        await rig.clock.advance(5)
        assert rig.network.held() == []
        retries.cancel()
        await rig.sandboxes.remover.remove(identity)


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
        rig.sandboxes.attachments.retry_later()
        retries = asyncio.ensure_future(rig.sandboxes.attachments.release_leftovers())
        await rig.clock.settle()
        assert tried == ["bad", "good"]
        await rig.clock.advance(2)
        assert tried == ["bad", "good"] * 2
        retries.cancel()


async def test_address_of_a_failed_creation_is_released_later(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        retries = asyncio.ensure_future(rig.sandboxes.attachments.release_leftovers())
        rig.network.fail_attach = rig.network.fail_detach = True
        with pytest.raises(Transient, match="no address is free"):
            await rig.sandboxes.runner.run(config("unlucky"), "")
        await rig.clock.settle()
        assert len(rig.network.held()) == 1
        rig.network.fail_detach = False
        await rig.clock.advance(5)
        assert rig.network.held() == []
        retries.cancel()


async def test_address_retry_after_others_were_released_has_a_short_delay(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        retries = asyncio.ensure_future(rig.sandboxes.attachments.release_leftovers())
        for name, failing, soon in (("long", 100, 70), ("short", 0, 5)):
            identity = await rig.sandboxes.runner.run(config(name), "")
            rig.network.fail_detach = True
            with pytest.raises(Transient, match="DEL failed"):
                await rig.sandboxes.stopper.stop(identity)
            await rig.clock.settle()
            await rig.clock.advance(failing)
            rig.network.fail_detach = False
            await rig.clock.advance(soon)
            assert rig.network.held() == []
            await rig.sandboxes.remover.remove(identity)
        retries.cancel()


async def test_next_server_undoes_partial_sandboxes_and_orphans(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        whole = await rig.sandboxes.runner.run(config("whole"), "")
        rig.network.go.clear()
        cut = asyncio.ensure_future(rig.sandboxes.runner.run(config("cut"), ""))
        await until(lambda: len(rig.network.attached) >= 2)
        records = (await rig.store.load())[0]
        assert {record.phase for record in records} == {SandboxPhase.READY, SandboxPhase.MAKING}
        again = Rig(tmp_path, rig.store, rig.scope.tasks)
        again.namespaces.made = {SandboxID("stray"): NamespaceSpec(())}
        (again.directory / "stray").mkdir()
        again.sandboxes.recovery.recover(records)
        await again.sandboxes.recovery.clean_up(ProtectedIds())
        await again.scope.repairs.wait_for_first_attempts(30)
        assert [sandbox.id for sandbox in again.sandboxes.table.visible()] == [whole]
        # Its namespaces are files here and no mounts, so the pod is not whole any more.
        assert again.sandboxes.table.get(whole).record.phase is SandboxPhase.STOPPED
        assert [path.name for path in again.directory.iterdir()] == [whole]
        assert again.namespaces.made == {}
        cut.cancel()
        await asyncio.gather(cut, return_exceptions=True)


async def test_run_retried_after_a_restart_returns_the_first_sandbox(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        first = await rig.sandboxes.runner.run(config(), "")
        again = Rig(tmp_path, rig.store, rig.scope.tasks)
        again.sandboxes.recovery.recover((await rig.store.load())[0])
        assert await again.sandboxes.runner.run(config(), "runc") == first
        assert again.network.attached == {}


@pytest.mark.parametrize("everything", [False, True])
async def test_protected_sandboxes_are_not_removed(tmp_path: Path, everything: bool) -> None:
    async with rig_in(tmp_path) as rig:
        lost, gone = [await rig.sandboxes.runner.run(config(name), "") for name in ("lost", "gone")]
        again = Rig(tmp_path, rig.store, rig.scope.tasks)
        again.namespaces.made = dict(rig.namespaces.made)
        again.network.attached = dict(rig.network.attached)
        # No record speaks of either.
        again.sandboxes.recovery.recover([])
        await again.sandboxes.recovery.clean_up(ProtectedIds(frozenset({lost}), everything))
        await again.scope.repairs.wait_for_first_attempts(30)
        retries = asyncio.ensure_future(again.sandboxes.attachments.release_leftovers())
        await again.clock.settle()
        left = {lost, gone} if everything else {lost}
        assert set(again.namespaces.made) == left
        assert set(again.network.attached) == left
        assert {path.name for path in again.directory.iterdir()} == left
        retries.cancel()
        await again.sandboxes.attachments.collect_garbage()
        assert again.network.used == (None if everything else {lost}), "no record speaks of it, but it is kept"


async def test_sandboxes_keep_their_addresses_though_their_attachments_are_lost(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        ready, stopped = [await rig.sandboxes.runner.run(config(name), "") for name in ("ready", "stopped")]
        await rig.sandboxes.stopper.stop(stopped)
        rig.network.attached.clear()
        await rig.sandboxes.attachments.collect_garbage()
        assert rig.network.used == {ready}


async def test_update_records_the_resources_of_a_pod(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        identity = await rig.sandboxes.runner.run(config(), "")
        await rig.sandboxes.updater.update(
            identity,
            pb.LinuxContainerResources(cpu_shares=3),
            pb.LinuxContainerResources(memory_limit_in_bytes=1 << 20),
        )
        (record,), _ = await rig.store.load()
        linux = pb.PodSandboxConfig.FromString(record.config).linux
        assert (linux.overhead.cpu_shares, linux.resources.memory_limit_in_bytes) == (3, 1 << 20)
        assert rig.sandboxes.table.get(identity).config.linux == linux
        await rig.sandboxes.stopper.stop(identity)
        with pytest.raises(Permanent, match="not ready"):
            await rig.sandboxes.updater.update(identity, linux.overhead, linux.resources)
        await rig.sandboxes.remover.remove(identity)
        with pytest.raises(NotFound):
            await rig.sandboxes.updater.update(identity, linux.overhead, linux.resources)


async def test_network_problem_reports_the_failed_check(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        identity = await rig.sandboxes.runner.run(config(), "")
        sandbox = rig.sandboxes.table.get(identity)
        assert await rig.sandboxes.attachments.problem(sandbox) == ""
        rig.network.broken.add(identity)
        assert await rig.sandboxes.attachments.problem(sandbox) == "eth0 is missing"
        await rig.sandboxes.stopper.stop(identity)
        assert await rig.sandboxes.attachments.problem(sandbox) == ""
        await rig.sandboxes.remover.remove(identity)


async def test_user_namespaces_without_host_support_are_rejected(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        wanted = config()
        options = wanted.linux.security_context.namespace_options
        options.ipc = pb.POD
        options.userns_options.uids.add(host_id=100000, length=65536)
        options.userns_options.gids.add(host_id=100000, length=65536)
        with pytest.raises(Permanent, match="user namespaces are not supported here"):
            await rig.sandboxes.runner.run(wanted, "")
        assert rig.nothing_left()
        assert (await rig.store.load())[0] == []


async def test_selinux_levels_of_pods_are_unique_also_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_rig, "HOST", replace(HOST, selinux=True))
    monkeypatch.setattr(secrets, "randbelow", lambda below: 5)
    async with rig_in(tmp_path) as rig:
        first = await rig.sandboxes.runner.run(config("a"), "")
        assert rig.views.view(first).selinux_level == "s0:c0,c6"
        again = Rig(tmp_path, rig.store, rig.scope.tasks)
        again.sandboxes.recovery.recover((await rig.store.load())[0])
        second = await again.sandboxes.runner.run(config("b"), "")
        assert again.views.view(first).selinux_level == "s0:c0,c6"
        assert again.views.view(second).selinux_level == "s0:c0,c7"
        await again.sandboxes.stopper.stop(first)
        await again.sandboxes.remover.remove(first)
        third = await again.sandboxes.runner.run(config("c"), "")
        assert again.views.view(third).selinux_level == "s0:c0,c6"
        for each in (second, third):
            await again.sandboxes.stopper.stop(each)
            await again.sandboxes.remover.remove(each)


async def test_pods_have_no_level_without_selinux(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        assert rig.views.view(await rig.sandboxes.runner.run(config(), "")).selinux_level == ""

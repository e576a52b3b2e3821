"""The parts of a sandbox in the order in which they are made and removed: infra process, network, files, containers."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from pykubelet.base.concurrency.guard import item_failures
from pykubelet.base.errors import NotFound, Transient
from pykubelet.criserver.cni import AttachRequest, PodAddresses
from pykubelet.criserver.event_hub import EventKind
from pykubelet.criserver.oci import OciRuntime
from pykubelet.criserver.processes import reference
from pykubelet.criserver.runtimes import MonitoredRuntime, RuntimeHandlers
from pykubelet.criserver.sandbox import Sandbox, SandboxViews
from pykubelet.criserver.sandbox.files import SandboxFiles
from pykubelet.criserver.types import ProtectedIds, SandboxID, SandboxPhase
from pykubelet.linux.system import hostname
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.blocking_calls import blocking_calls
from pykubelet.testing.wait import settle, until
from tests.unit.criserver.sandbox.rig import FakeInfra, Rig, config, rig_in


@pytest.fixture
def infra() -> Iterator[FakeInfra]:
    made = FakeInfra()
    yield made
    made.kill()


def _shared(name: str = "web") -> pb.PodSandboxConfig:
    """A pod whose containers share a PID namespace."""
    found = config(name)
    found.linux.security_context.namespace_options.pid = pb.POD
    return found


@asynccontextmanager
async def _events(rig: Rig) -> AsyncIterator[list[EventKind]]:
    """The kinds of the events that are published in the block."""
    seen: list[EventKind] = []

    async def collect() -> None:
        async with aclosing(rig.scope.events.subscribe()) as events:
            async for event in events:
                seen.append(event.kind)

    task = asyncio.create_task(collect())
    await asyncio.sleep(0)
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_infra_process_runs_in_the_namespaces_and_ends_with_the_sandbox(tmp_path: Path, infra: FakeInfra) -> None:
    async with rig_in(tmp_path, infra) as rig, _events(rig) as seen:
        identity = await rig.sandboxes.runner.run(_shared(), "")
        process = infra.processes[identity]
        assert rig.views.infra_process(identity) == reference(process.pid)
        assert set(infra.namespaces) == {"network", "uts"}
        await settle()
        assert rig.sandboxes.table.get(identity).ready, "its infra process runs"
        await rig.sandboxes.stopper.stop(identity)
        assert process.poll() is not None
        await rig.sandboxes.remover.remove(identity)
        assert infra.stops == 1, "it was stopped completely before it was removed"
        assert rig.containers.calls == ["stop", "stop", "remove"]
        await settle()
        assert seen == [EventKind.CREATED, EventKind.STARTED, EventKind.STOPPED, EventKind.DELETED]
        with pytest.raises(NotFound):
            rig.views.infra_process(identity)


async def test_sandbox_without_a_shared_pid_namespace_has_no_infra_process(tmp_path: Path, infra: FakeInfra) -> None:
    async with rig_in(tmp_path, infra) as rig:
        identity = await rig.sandboxes.runner.run(config(), "")
        assert infra.processes == {}
        assert rig.views.infra_process(identity) is None
        await settle()
        assert rig.sandboxes.table.get(identity).ready, "there is no process whose end would stop it"


async def test_sandbox_is_made_and_stopped_with_few_blocking_calls(tmp_path: Path) -> None:
    """Each is a hand-over to a thread and back; the fakes for network and namespaces make none."""
    async with rig_in(tmp_path) as rig:
        with blocking_calls() as calls:
            identity = await rig.sandboxes.runner.run(config(), "")
            await rig.sandboxes.stopper.stop(identity)
        # The second looks for the files of an infra process.
        assert calls == ["SandboxFiles.make", "Path.exists", "SandboxFiles.unmount"]


@pytest.mark.parametrize("at_once", [False, True])
async def test_sandbox_whose_infra_process_ends_is_stopped(tmp_path: Path, infra: FakeInfra, at_once: bool) -> None:
    infra.ends_at_once = at_once
    async with rig_in(tmp_path, infra) as rig, _events(rig) as seen:
        sandbox = rig.sandboxes.table.get(await rig.sandboxes.runner.run(_shared(), ""))
        infra.kill()
        await until(lambda: EventKind.STOPPED in seen)
        assert sandbox.record.phase is SandboxPhase.STOPPED
        assert [record.phase for record in (await rig.store.load())[0]] == [SandboxPhase.STOPPED]
        assert len(seen) == 3
        assert set(seen) == {EventKind.CREATED, EventKind.STARTED, EventKind.STOPPED}


async def test_next_server_watches_the_infra_process(
    tmp_path: Path, infra: FakeInfra, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykubelet.criserver.sandbox.recover.is_mount_point", lambda path: True)
    async with rig_in(tmp_path, infra) as rig:
        identity = await rig.sandboxes.runner.run(_shared(), "")
        again = Rig(tmp_path, rig.store, rig.scope.tasks, infra)
        again.network.attached = rig.network.attached
        again.sandboxes.recovery.recover((await rig.store.load())[0])
        await again.sandboxes.recovery.clean_up(ProtectedIds())
        await again.scope.repairs.wait_for_first_attempts(30)
        sandbox = again.sandboxes.table.get(identity)
        assert sandbox.ready
        infra.kill()
        await until(lambda: sandbox.record.phase is SandboxPhase.STOPPED)


async def test_repair_of_a_sandbox_that_was_removed_meanwhile_does_nothing(tmp_path: Path, infra: FakeInfra) -> None:
    async with rig_in(tmp_path, infra) as rig:
        identity = await rig.sandboxes.runner.run(config(), "")
        half = replace(rig.sandboxes.table.get(identity).record, phase=SandboxPhase.REMOVING)
        again = Rig(tmp_path, rig.store, rig.scope.tasks, infra)
        again.sandboxes.recovery.recover([half])
        sandbox = again.sandboxes.table.get(identity)
        async with sandbox.lock:  # the removal goes on
            await again.sandboxes.recovery.clean_up(ProtectedIds())
            await again.sandboxes.recovery._records.delete(sandbox)
        await again.scope.repairs.wait_for_first_attempts(30)
        assert again.containers.calls == []
        assert again.scope.repairs.unfinished() == []


async def test_root_file_systems_of_infra_processes_are_known(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        for name in ("s1/infra", "s2/infra", "s3/etc"):
            (rig.directory / name).mkdir(parents=True)
        assert sorted(await rig.sandboxes.recovery.rootfs_names()) == ["s1", "s2"]


async def test_concurrent_removals_publish_one_event(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig, _events(rig) as seen:
        identity = await rig.sandboxes.runner.run(config(), "")
        await asyncio.gather(*(rig.sandboxes.remover.remove(identity) for _ in range(3)))
        await settle()
        assert seen.count(EventKind.DELETED) == 1
        assert rig.containers.calls == ["stop", "remove"]


async def test_removal_that_is_retried_stops_nothing_again(
    tmp_path: Path, infra: FakeInfra, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig_in(tmp_path, infra) as rig:
        identity = await rig.sandboxes.runner.run(_shared(), "")
        with monkeypatch.context() as patch:

            def broken(files: SandboxFiles, *, mounted: bool = True) -> None:
                raise Transient("an I/O error")

            patch.setattr(SandboxFiles, "remove", broken)
            with pytest.raises(Transient, match="an I/O error"):
                await rig.sandboxes.remover.remove(identity)
        rig.containers.calls.clear()
        await rig.sandboxes.stopper.stop(identity)
        assert rig.containers.calls == [], "it is being removed"
        await rig.sandboxes.remover.remove(identity)
        assert rig.containers.calls == ["remove"]
        assert infra.stops == 1


async def test_files_are_unmounted_unless_the_stop_has_done_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig_in(tmp_path) as rig:
        asked: list[bool] = []
        remove = SandboxFiles.remove

        def noted(files: SandboxFiles, *, mounted: bool = True) -> None:
            asked.append(mounted)
            remove(files, mounted=mounted)

        monkeypatch.setattr(SandboxFiles, "remove", noted)
        await rig.sandboxes.remover.remove(await rig.sandboxes.runner.run(config(), ""))
        rig.network.fail_attach = True
        with pytest.raises(Transient, match="no address"):
            await rig.sandboxes.runner.run(config(), "")
        assert asked == [False, True]


async def test_half_made_sandbox_is_undone_with_its_infra_process(
    tmp_path: Path, infra: FakeInfra, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig_in(tmp_path, infra) as rig:
        detach = rig.network.detach

        async def noted(sandbox: SandboxID, known: AttachRequest | None = None) -> None:
            rig.containers.calls.append("detach")
            await detach(sandbox, known)

        monkeypatch.setattr(rig.network, "detach", noted)
        rig.network.fail_attach = True
        with pytest.raises(Transient, match="no address"):
            await rig.sandboxes.runner.run(_shared(), "")
        assert rig.containers.calls == ["remove", "detach", "remove"]
        assert infra.stops == 1
        assert [process.poll() is not None for process in infra.processes.values()] == [True]
        assert rig.nothing_left()


async def test_watch_of_an_infra_process_that_raises_is_begun_again(
    tmp_path: Path, infra: FakeInfra, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait, failures = infra.wait, 1

    async def fail_first(sandbox: Sandbox) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise KeyError("defect")
        await wait(sandbox)

    monkeypatch.setattr(infra, "wait", fail_first)
    before = item_failures().get("sandboxes.infra", 0)
    async with rig_in(tmp_path, infra) as rig:
        identity = await rig.sandboxes.runner.run(_shared(), "")
        await until(lambda: item_failures().get("sandboxes.infra", 0) > before)
        infra.kill()
        await rig.clock.advance(10)
        await until(lambda: not rig.sandboxes.table.get(identity).ready)


async def test_failure_of_one_part_ends_the_others_before_the_undo(
    tmp_path: Path, infra: FakeInfra, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig_in(tmp_path, infra) as rig:
        calls: list[str] = []
        attaching = asyncio.Event()
        detach = rig.network.detach

        async def attach(request: AttachRequest) -> PodAddresses:
            attaching.set()
            try:
                await asyncio.Event().wait()
            finally:
                await settle()  # a plugin that is ended needs some time, too
                calls.append("attach ended")
            raise AssertionError

        async def noted(sandbox: SandboxID, known: AttachRequest | None = None) -> None:
            calls.append("detach")
            await detach(sandbox, known)

        async def start(*_: object) -> None:
            await attaching.wait()
            raise NotFound("its infra process ended at once")

        monkeypatch.setattr(rig.network, "attach", attach)
        monkeypatch.setattr(rig.network, "detach", noted)
        monkeypatch.setattr(infra, "start", start)
        with pytest.raises(NotFound, match="ended at once"):
            await rig.sandboxes.runner.run(_shared(), "")
        assert calls == ["attach ended", "detach"]
        assert rig.nothing_left()


async def test_sandbox_without_a_host_name_has_the_node_s(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        wanted = config()
        wanted.hostname = ""
        wanted.linux.security_context.namespace_options.network = pb.NODE
        identity = await rig.sandboxes.runner.run(wanted, "")
        assert (rig.directory / identity / "etc/hostname").read_text() == f"{hostname()}\n"
        assert rig.views.view(identity).hostname == hostname()
        assert rig.network.attached == {}, "it uses the node's network"
        assert rig.sandboxes.table.get(identity).record.ips == ()
        await rig.sandboxes.stopper.stop(identity)
        assert rig.network.known == {identity: None}, "it has no attachment, but an interrupted one may be recorded"


async def test_runtime_of_a_sandbox_is_that_of_its_handler(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        identity = await rig.sandboxes.runner.run(config(), "")
        sandbox = rig.sandboxes.table.get(identity)
        first, second = (
            MonitoredRuntime(OciRuntime(program="true", root=tmp_path / name, scratch=tmp_path), rig.machine.conmon)
            for name in ("a", "b")
        )
        handlers = RuntimeHandlers(runtimes={"default": first, "runc": second}, default="default")
        machine = replace(rig.machine, handlers=handlers)
        views = SandboxViews(table=rig.sandboxes.table, layout=rig.layout, machine=machine)
        assert (views.handler(identity), views.runtime(identity)) == ("runc", second)
        assert (views.handler(cast(SandboxID, "unknown")), views.runtime(SandboxID("unknown"))) == ("default", first)
        sandbox.record = replace(sandbox.record, handler="gone")
        assert views.runtime(identity) is first

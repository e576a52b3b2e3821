"""Concurrent calls about one sandbox, and failures in the middle of a call."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Conflict, NotFound, Permanent, Transient
from pykubelet.criserver.event_hub import EventKind
from pykubelet.criserver.sandbox.files import SandboxFiles
from pykubelet.criserver.types import ProtectedIds, SandboxID, SandboxPhase, SandboxRecord
from pykubelet.pb import runtime_v1_pb2 as pb
from tests.unit.criserver.sandbox.rig import Rig, config, rig_in


async def test_sandbox_being_stopped_rejects_new_containers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig_in(tmp_path) as rig:
        identity = await rig.sandboxes.runner.run(config(), "")
        seen = []

        async def stop_all(sandbox: SandboxID) -> None:
            with pytest.raises(Permanent, match="is being stopped"):
                rig.views.view(sandbox)
            seen.append(rig.sandboxes.table.get(sandbox).ready)
            raise Transient("one does not die")

        monkeypatch.setattr(rig.containers, "stop_all", stop_all)
        with pytest.raises(Transient, match="does not die"):
            await rig.sandboxes.stopper.stop(identity)
        assert seen == [True]
        assert rig.views.view(identity).hostname == "web", "it was not stopped"
        assert rig.sandboxes.table.get(identity).record.phase is SandboxPhase.READY


async def test_stop_part_not_found_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a sandbox that does not exist is stopped already."""
    async with rig_in(tmp_path) as rig:
        identity = await rig.sandboxes.runner.run(config(), "")

        async def release(sandbox: SandboxID) -> None:
            raise NotFound("no such device")

        monkeypatch.setattr(rig.namespaces, "release", release)
        with pytest.raises(NotFound, match="no such device"):
            await rig.sandboxes.stopper.stop(identity)
        await rig.sandboxes.stopper.stop("absent")


def _break_removal(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(files: SandboxFiles, *, mounted: bool = True) -> None:
        raise Transient("an I/O error")

    monkeypatch.setattr(SandboxFiles, "remove", broken)


async def test_sandbox_that_could_not_be_removed_is_listed_and_its_removal_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig_in(tmp_path) as rig:
        identity = await rig.sandboxes.runner.run(config(), "")
        with monkeypatch.context() as patch:
            _break_removal(patch)
            with pytest.raises(Transient, match="an I/O error"):
                await rig.sandboxes.remover.remove(identity)
        assert [(each.id, each.ready) for each in rig.sandboxes.table.visible()] == [(identity, False)]
        (record,), _ = await rig.store.load()
        assert record.phase is SandboxPhase.REMOVING
        again = Rig(tmp_path, rig.store, rig.scope.tasks)
        again.sandboxes.recovery.recover([record])
        await again.sandboxes.recovery.clean_up(ProtectedIds())
        await again.scope.repairs.wait_for_first_attempts(30)
        assert list(again.sandboxes.table.visible()) == []
        assert await rig.store.load() == ([], [])


async def test_failed_creation_that_cannot_be_undone_releases_its_name_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig_in(tmp_path) as rig:
        rig.network.fail_attach = True
        with monkeypatch.context() as patch:
            _break_removal(patch)
            with pytest.raises(Transient, match="no address"):
                await rig.sandboxes.runner.run(config(), "")
        assert list(rig.sandboxes.table.visible()) == []
        assert len((await rig.store.load())[0]) == 1, "it is remembered"
        rig.network.fail_attach = False
        identity = await rig.sandboxes.runner.run(config(), "")
        assert [record.id for record in (await rig.store.load())[0]] == [identity]
        assert [path.name for path in rig.directory.iterdir()] == [identity]


async def test_cancelled_creation_that_cannot_be_undone_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is cancelled while its record becomes ready; then its network is released, but its files stay."""
    async with rig_in(tmp_path) as rig:
        written, go, put = asyncio.Event(), asyncio.Event(), rig.store.sandboxes.put

        async def late(record: SandboxRecord) -> None:
            await put(record)
            written.set()
            await go.wait()

        monkeypatch.setattr(rig.store.sandboxes, "put", late)
        run = asyncio.ensure_future(rig.sandboxes.runner.run(config(), ""))
        await written.wait()
        run.cancel()
        with monkeypatch.context() as patch:
            _break_removal(patch)
            go.set()
            with pytest.raises(asyncio.CancelledError):
                await run
        (damaged,) = rig.sandboxes.table.visible()
        assert damaged.record.phase is SandboxPhase.REMOVING, "its client sees it, and can remove it"
        assert [record.phase for record in (await rig.store.load())[0]] == [SandboxPhase.REMOVING]
        with pytest.raises(Permanent, match="is not ready"):
            rig.views.view(damaged.id)
        again = await rig.sandboxes.runner.run(config(), "")
        assert again != damaged.id
        assert rig.sandboxes.table.get(again).ready
        assert [path.name for path in rig.directory.iterdir()] == [again]


@pytest.mark.parametrize("how", ["put", "note"])
async def test_impossible_phase_is_not_stored(tmp_path: Path, how: str) -> None:
    async with rig_in(tmp_path) as rig:
        sandbox = rig.sandboxes.table.get(await rig.sandboxes.runner.run(config(), ""))
        records = rig.sandboxes.runner._records
        with pytest.raises(Permanent, match="cannot become making"):
            await getattr(records, how)(sandbox, replace(sandbox.record, phase=SandboxPhase.MAKING))
        assert (await rig.store.load())[0] == [sandbox.record]


async def test_creation_in_progress_holds_its_name(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        rig.network.go.clear()
        first = asyncio.ensure_future(rig.sandboxes.runner.run(config(), ""))
        await asyncio.sleep(0)
        with pytest.raises(Conflict, match="which is making"):
            await rig.sandboxes.runner.run(config(), "")
        rig.network.go.set()
        identity = await first
        assert [each.id for each in rig.sandboxes.table.visible()] == [identity]


async def test_concurrent_stop_and_removal_publish_one_event_each(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig, aclosing(rig.scope.events.subscribe()) as events:
        seen = []

        async def watch() -> None:
            async for event in events:
                seen.append(event.kind)

        watcher = asyncio.ensure_future(watch())
        await asyncio.sleep(0)
        identity = await rig.sandboxes.runner.run(config(), "")
        stop, remove = rig.sandboxes.stopper.stop, rig.sandboxes.remover.remove
        await asyncio.gather(*(stop(identity) for _ in range(3)), remove(identity))
        await asyncio.gather(stop(identity), remove(identity))
        for _ in range(3):
            await asyncio.sleep(0)
        assert seen == [EventKind.CREATED, EventKind.STARTED, EventKind.STOPPED, EventKind.DELETED]
        watcher.cancel()
        await asyncio.gather(watcher, return_exceptions=True)


async def test_creation_clock_set_back_is_after_the_pod_s_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kubelet takes the newest sandbox for the pod's own."""
    async with rig_in(tmp_path) as rig:
        first = rig.sandboxes.table.get(await rig.sandboxes.runner.run(config(), ""))
        await rig.sandboxes.stopper.stop(first.id)
        rig.clock.jump_wall(-3600)
        again = config()
        again.metadata.attempt = 1
        second = rig.sandboxes.table.get(await rig.sandboxes.runner.run(again, ""))
        assert second.record.created_at > first.record.created_at
        other = config()
        other.metadata.uid = "u2"
        third = rig.sandboxes.table.get(await rig.sandboxes.runner.run(other, ""))
        assert third.record.created_at < first.record.created_at


async def test_update_caller_gone_is_in_memory_as_in_the_database(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        identity = await rig.sandboxes.runner.run(config(), "")
        limits = pb.LinuxContainerResources(cpu_shares=3)
        for _ in range(5):
            limits.cpu_shares += 1
            call = asyncio.ensure_future(rig.sandboxes.updater.update(identity, pb.LinuxContainerResources(), limits))
            await asyncio.sleep(0)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            sandbox = rig.sandboxes.table.get(identity)
            (record,), _ = await rig.store.load()
            assert sandbox.record == record
            assert sandbox.config == pb.PodSandboxConfig.FromString(record.config)


async def test_sandbox_ready_by_its_record_without_an_address_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server was killed during a stop that a full disk kept from the record."""
    monkeypatch.setattr("pykubelet.criserver.sandbox.recover.is_mount_point", lambda path: True)
    async with rig_in(tmp_path) as rig:
        whole, cut = [await rig.sandboxes.runner.run(config(name), "") for name in ("whole", "cut")]
        await rig.network.detach(cut)
        again = Rig(tmp_path, rig.store, rig.scope.tasks)
        again.network.attached = rig.network.attached
        for record in (await rig.store.load())[0]:
            await again.sandboxes.recovery.verify(again.sandboxes.table.add(record))
        assert {each.id: each.ready for each in again.sandboxes.table.visible()} == {whole: True, cut: False}

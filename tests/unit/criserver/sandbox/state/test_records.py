"""The changes of sandboxes' records: on disk, in the table, and as events."""

import asyncio
from pathlib import Path

from pykubelet.criserver.event_hub import Event, EventKind
from pykubelet.criserver.record_store import Store
from pykubelet.criserver.sandbox.state.records import SandboxRecords
from pykubelet.criserver.sandbox.state.table import SandboxTable
from pykubelet.criserver.scope import ServerScope
from pykubelet.criserver.types import ContainerID, ContainerRecord, SandboxID, SandboxRecord
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.clock import VirtualClock


def _record(identity: str, uid: str = "u1", at: int = 1) -> SandboxRecord:
    config = pb.PodSandboxConfig(metadata=pb.PodSandboxMetadata(name=identity, uid=uid))
    return SandboxRecord(SandboxID(identity), f"name-{identity}", "runc", config.SerializeToString(), at)


async def test_record_is_stored_then_deleted_with_those_of_its_containers(tmp_path: Path) -> None:
    store, clock = await Store.open(tmp_path / "state.db"), VirtualClock()
    async with asyncio.TaskGroup() as tasks:
        table = SandboxTable(monotonic=clock.monotonic)
        records = SandboxRecords(stored=store.sandboxes, table=table, scope=ServerScope.of(tasks, clock))
        sandboxes = [table.add(_record(name)) for name in ("s1", "s2")]
        for sandbox in sandboxes:
            await records.insert(sandbox)
        part = ContainerRecord(ContainerID("c1"), "app_0", SandboxID("s1"), b"", 1, "", "", "", "", "SIGTERM")
        await store.containers.add(part)
        assert await store.load() == ([sandbox.record for sandbox in sandboxes], [part])
        await records.delete(sandboxes[0])
        assert await store.load() == ([sandboxes[1].record], [])
        assert list(table) == [sandboxes[1]]
    await store.close()


async def test_creation_time_is_now_but_after_the_pod_s_others(tmp_path: Path) -> None:
    store, clock = await Store.open(tmp_path / "state.db"), VirtualClock()
    async with asyncio.TaskGroup() as tasks:
        table, scope = SandboxTable(monotonic=clock.monotonic), ServerScope.of(tasks, clock)
        records = SandboxRecords(stored=store.sandboxes, table=table, scope=scope)
        now = scope.now()
        assert records.creation_time("u1") == now
        table.add(_record("s1", at=now + 50))
        table.add(_record("s2", at=now + 40))
        assert records.creation_time("u1") == now + 51
        assert records.creation_time("u2") == now
    await store.close()


async def test_event_names_the_sandbox_and_the_time(tmp_path: Path) -> None:
    store, clock = await Store.open(tmp_path / "state.db"), VirtualClock()
    async with asyncio.TaskGroup() as tasks:
        table, scope = SandboxTable(monotonic=clock.monotonic), ServerScope.of(tasks, clock)
        records = SandboxRecords(stored=store.sandboxes, table=table, scope=scope)
        subscription = scope.events.subscribe()
        first = asyncio.ensure_future(anext(subscription))
        await asyncio.sleep(0)
        records.publish(table.add(_record("s1")), EventKind.STARTED)
        assert await first == Event(ContainerID("s1"), SandboxID("s1"), EventKind.STARTED, scope.now())
        await subscription.aclose()
    await store.close()

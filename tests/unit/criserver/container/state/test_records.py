"""The changes of containers' records: on disk, in the table, and as events."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

import pytest

from pykubelet.base.errors import Transient
from pykubelet.criserver.container.state.records import ContainerRecords
from pykubelet.criserver.container.state.table import ContainerTable
from pykubelet.criserver.event_hub import Event, EventKind
from pykubelet.criserver.record_store import StoredRecords
from pykubelet.criserver.scope import ServerScope
from pykubelet.criserver.types import ContainerID, ContainerRecord, SandboxID
from pykubelet.testing.clock import VirtualClock


@dataclass
class DiskRecords:
    """The records on disk; deletions wait for ``go``."""

    records: dict[str, ContainerRecord] = field(default_factory=dict)
    go: asyncio.Event = field(default_factory=asyncio.Event)
    deleting: asyncio.Event = field(default_factory=asyncio.Event)
    full: bool = False

    async def add(self, record: ContainerRecord) -> None:
        if self.full:
            raise Transient("disk full")
        self.records[record.id] = record

    async def delete(self, identity: str) -> None:
        self.deleting.set()
        await self.go.wait()
        self.records.pop(identity, None)


@dataclass
class World:
    """The records with what they use."""

    stored: DiskRecords
    table: ContainerTable
    scope: ServerScope
    records: ContainerRecords


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    clock, stored = VirtualClock(), DiskRecords()
    async with asyncio.TaskGroup() as tasks:
        scope, table = ServerScope.of(tasks, clock), ContainerTable(monotonic=clock.monotonic)
        records = ContainerRecords(stored=cast(StoredRecords[ContainerRecord], stored), table=table, scope=scope)
        yield World(stored, table, scope, records)


def _record(identity: str, sandbox: str = "s1", at: int = 1) -> ContainerRecord:
    names = ContainerID(identity), f"name-{identity}", SandboxID(sandbox)
    return ContainerRecord(*names, b"", at, "", "", "", "", "SIGTERM")


async def test_new_record_is_stored_and_a_full_disk_is_an_error() -> None:
    async with world() as made:
        await made.records.insert(_record("c1"))
        assert list(made.stored.records) == ["c1"]
        made.stored.full = True
        with pytest.raises(Transient, match="disk full"):
            await made.records.insert(_record("c2"))


async def test_deletion_whose_caller_is_cancelled_is_finished() -> None:
    """The container stays in the table until its record is deleted."""
    async with world() as made:
        container = made.table.add(_record("c1"))
        await made.records.insert(container.record)
        deletion = asyncio.create_task(made.records.delete(container))
        await made.stored.deleting.wait()
        assert container in made.table
        deletion.cancel()
        made.stored.go.set()
        await asyncio.wait({deletion})
        assert deletion.cancelled()
        assert container not in made.table
        assert made.stored.records == {}


async def test_creation_time_is_now_but_after_the_sandbox_s_others() -> None:
    async with world() as made:
        now = made.scope.now()
        assert made.records.now() == now
        assert made.records.creation_time(SandboxID("s1")) == now
        made.table.add(_record("c1", at=now + 50))
        made.table.add(_record("c2", at=now + 40))
        assert made.records.creation_time(SandboxID("s1")) == now + 51
        assert made.records.creation_time(SandboxID("s2")) == now
        made.table.add(_record("c3", sandbox="s3", at=now - 10))
        assert made.records.creation_time(SandboxID("s3")) == now


async def test_event_names_the_container_its_sandbox_and_the_time() -> None:
    async with world() as made:
        subscription = made.scope.events.subscribe()
        first = asyncio.ensure_future(anext(subscription))
        await asyncio.sleep(0)
        made.records.publish(_record("c1"), EventKind.STOPPED, 77)
        assert await first == Event(ContainerID("c1"), SandboxID("s1"), EventKind.STOPPED, 77)
        await subscription.aclose()

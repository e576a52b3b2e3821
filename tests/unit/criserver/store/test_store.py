"""Durable records."""

import sqlite3
from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Conflict, Permanent
from pykubelet.criserver.store import Store
from pykubelet.criserver.types import (
    ContainerID,
    ContainerPhase,
    ContainerRecord,
    ContainerUser,
    ProcessRef,
    SandboxID,
    SandboxPhase,
    SandboxRecord,
)

SANDBOX = SandboxRecord(SandboxID("s1"), "web_default_u1_0", "runc", b"\x00\xff", 5)
CONTAINER = ContainerRecord(
    ContainerID("c1"), "app_0", SANDBOX.id, b"\x01", 6, "sha256:1", "ref", "/log", "/cg", "SIGTERM"
)


async def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "state.db")
    await store.add_sandbox(SANDBOX)
    await store.add_container(CONTAINER)
    ready = replace(SANDBOX, phase=SandboxPhase.READY, ips=("10.0.0.1",), infra=ProcessRef(7, 8))
    ended = replace(CONTAINER, phase=ContainerPhase.EXITED, exit_code=3, user=ContainerUser(1, 2, (2, 3), "/h", "n"))
    await store.put_sandbox(ready)
    await store.put_container(ended)
    await store.close()
    again = await Store.open(tmp_path / "state.db")
    assert await again.load() == ([ready], [ended])
    await again.delete_container(CONTAINER.id)
    await again.delete_sandbox(SANDBOX.id)
    assert await again.load() == ([], [])
    await again.close()


async def test_a_name_is_reserved_until_it_is_deleted(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "state.db")
    await store.add_sandbox(SANDBOX)
    with pytest.raises(Conflict, match="is reserved for s1"):
        await store.add_sandbox(replace(SANDBOX, id=SandboxID("s2")))
    await store.delete_sandbox(SANDBOX.id)
    await store.add_sandbox(replace(SANDBOX, id=SandboxID("s2")))
    await store.add_container(CONTAINER)
    with pytest.raises(Conflict, match="is reserved for c1"):
        await store.add_container(replace(CONTAINER, id=ContainerID("c2")))
    await store.add_container(replace(CONTAINER, id=ContainerID("c2"), sandbox_id=SandboxID("s2")))
    await store.close()


async def test_facts_are_exchanged(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "state.db")
    assert await store.exchange_fact("boot", "a") == ""
    assert await store.exchange_fact("boot", "b") == "a"
    await store.close()


@pytest.mark.parametrize("damage", [b"", b"garbage" * 1000, None])
async def test_a_damaged_file_is_set_aside(tmp_path: Path, damage: bytes | None) -> None:
    path = tmp_path / "state.db"
    store = await Store.open(path)
    await store.add_sandbox(SANDBOX)
    await store.close()
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] if damage is None else damage)
    again = await Store.open(path)
    assert (await again.load())[0] == []
    await again.add_sandbox(SANDBOX)
    await again.close()
    # An empty file is as good as none; any other is kept for people to look at.
    assert path.with_name("state.db.damaged-1").exists() is (damage != b"")


async def test_a_newer_file_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    await (await Store.open(path)).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(Permanent, match="newer version"):
        await Store.open(path)


async def test_nobody_else_can_read_the_records(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.touch(mode=0o644)
    store = await Store.open(path)
    await store.add_sandbox(SANDBOX)
    try:
        assert {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == dict.fromkeys(
            ("state.db", "state.db-wal", "state.db-shm"), 0o600
        )
    finally:
        await store.close()

"""Durable records."""

import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Conflict, Transient
from pykubelet.criserver.record_store import Store
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
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.clock import VirtualClock
from tests.unit.criserver.record_store.records import CONTAINER, SANDBOX


async def test_records_are_loaded_unchanged(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "state.db")
    await store.sandboxes.add(SANDBOX)
    await store.containers.add(CONTAINER)
    ready = replace(SANDBOX, phase=SandboxPhase.READY, ips=("10.0.0.1",), infra=ProcessRef(7, 8))
    ended = replace(CONTAINER, phase=ContainerPhase.EXITED, exit_code=3, user=ContainerUser(1, 2, (2, 3), "/h", "n"))
    await store.sandboxes.put(ready)
    await store.containers.put(ended)
    await store.close()
    again = await Store.open(tmp_path / "state.db")
    assert await again.load() == ([ready], [ended])
    await again.containers.delete(CONTAINER.id)
    await again.sandboxes.delete(SANDBOX.id)
    assert await again.load() == ([], [])
    await again.close()


async def test_deletion_of_a_sandbox_deletes_its_containers(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "state.db")
    other = replace(SANDBOX, id=SandboxID("s2"), name="other")
    kept = replace(CONTAINER, id=ContainerID("c3"), sandbox_id=other.id)
    for sandbox in (SANDBOX, other):
        await store.sandboxes.add(sandbox)
    for container in (CONTAINER, replace(CONTAINER, id=ContainerID("c2"), name="app_1"), kept):
        await store.containers.add(container)
    await store.sandboxes.delete(SANDBOX.id)
    assert await store.load() == ([other], [kept])
    await store.close()
    assert sorted(path.stem for path in (tmp_path / "records").rglob("*.json")) == ["c3", "s2"]


async def test_a_name_is_reserved_until_it_is_deleted(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "state.db")
    await store.sandboxes.add(SANDBOX)
    with pytest.raises(Conflict, match="is reserved for s1"):
        await store.sandboxes.add(replace(SANDBOX, id=SandboxID("s2")))
    await store.sandboxes.delete(SANDBOX.id)
    await store.sandboxes.add(replace(SANDBOX, id=SandboxID("s2")))
    await store.containers.add(CONTAINER)
    with pytest.raises(Conflict, match="is reserved for c1"):
        await store.containers.add(replace(CONTAINER, id=ContainerID("c2")))
    await store.containers.add(replace(CONTAINER, id=ContainerID("c2"), sandbox_id=SandboxID("s2")))
    await store.close()


async def test_facts_are_exchanged(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "state.db")
    assert await store.exchange_fact("boot", "a") == ""
    assert await store.exchange_fact("boot", "b") == "a"
    await store.close()


def _overwrite(data: bytes) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.write_bytes(data)

    return damage


def _halve(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def _execute(statement: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        connection = sqlite3.connect(path)
        connection.execute(statement)
        connection.commit()
        connection.close()

    return damage


async def _two(path: Path) -> tuple[SandboxRecord, ContainerRecord]:
    """Create a file with a sandbox and a running container."""
    store = await Store.open(path)
    await store.sandboxes.add(SANDBOX)
    ready = replace(SANDBOX, phase=SandboxPhase.READY, ips=("10.0.0.1",))
    await store.sandboxes.put(ready)
    await store.containers.add(CONTAINER)
    running = replace(CONTAINER, phase=ContainerPhase.RUNNING, process=ProcessRef(7, 8))
    await store.containers.put(running)
    await store.close()
    return ready, running


@pytest.mark.parametrize(
    ("damage", "kept"),
    [
        (_overwrite(b"garbage" * 1000), True),
        (_halve, True),
        (_execute("DROP TABLE containers"), True),
        (_execute("ALTER TABLE sandboxes RENAME COLUMN body TO other"), True),
        (_execute("PRAGMA user_version=0"), True),
        (_overwrite(b"\0" * 8192), True),
        # As good as none.
        (_overwrite(b""), False),
        (Path.unlink, False),
    ],
    ids=["garbage", "half", "no-table", "other-column", "no-version", "zeroes", "empty", "gone"],
)
async def test_a_damaged_file_is_restored_from_the_copies(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], None], kept: bool
) -> None:
    path = tmp_path / "state.db"
    ready, running = await _two(path)
    damage(path)
    for sound in (False, True):
        store = await Store.open(path, VirtualClock(1_700_000_000))
        assert store.intact is sound
        assert await store.load() == ([ready], [running])
        with pytest.raises(Conflict):
            await store.sandboxes.add(replace(SANDBOX, id=SandboxID("s2")))
        await store.close()
    aside = path.with_name("state.db.damaged-20231114T221320Z")
    assert aside.exists() is kept
    errors = [entry for entry in caplog.records if entry.levelno == logging.ERROR]
    assert [getattr(entry, "kept_as", "") for entry in errors] == ([str(aside)] if kept else []) + [""]
    assert getattr(errors[-1], "records") == 2  # noqa: B009  # the field of a log entry


async def test_two_damaged_files_of_one_second_are_both_kept(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    for _ in range(2):
        path.write_bytes(b"garbage" * 1000)
        store = await Store.open(path, VirtualClock(1_700_000_000))
        assert not store.intact
        await store.close()
    assert len(list(tmp_path.glob("*.damaged-*"))) == 2


async def test_a_damaged_record_is_taken_from_its_copy(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    ready, running = await _two(path)
    _execute("UPDATE containers SET body = replace(body, 'config', 'confiq')")(path)
    _execute("UPDATE sandboxes SET body = replace(body, '\"s1\"', '\"s9\"')")(path)
    for _ in range(2):
        store = await Store.open(path)
        assert await store.load() == ([ready], [running])
        assert store.intact
        await store.close()


async def test_record_damaged_in_file_and_copy_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    ready, _ = await _two(path)
    _execute("UPDATE containers SET body = x'00'")(path)
    (tmp_path / "records" / "containers" / "c1.json").write_bytes(b"\0")
    store = await Store.open(path)
    assert await store.load() == ([ready], [])
    assert not store.intact
    await store.close()


async def test_copies_follow_an_intact_file(tmp_path: Path) -> None:
    path, directory = tmp_path / "state.db", tmp_path / "records" / "containers"
    ready, running = await _two(path)
    right = (directory / "c1.json").read_bytes()
    (directory / "c1.json").write_bytes(b"old")
    (directory / "c2.json").write_bytes(right)
    store = await Store.open(path)
    assert await store.load() == ([ready], [running])
    assert {file.name: file.read_bytes() for file in directory.iterdir()} == {"c1.json": right}
    await store.containers.delete(CONTAINER.id)
    assert list(directory.iterdir()) == []
    await store.close()


async def test_newer_of_two_copies_of_one_name_is_restored(tmp_path: Path) -> None:
    path, directory = tmp_path / "state.db", tmp_path / "records" / "containers"
    _, running = await _two(path)
    old = replace(running, id=ContainerID("a1"), created_at=1)
    (directory / "a1.json").write_bytes(msgspec.json.encode(old))
    path.unlink()
    store = await Store.open(path)
    assert (await store.load())[1] == [running]
    await store.close()


async def _limit(store: Store, pages: int) -> None:
    """Limit the file to so many pages, as on a full disk."""

    def work(connection: sqlite3.Connection) -> None:
        connection.execute(f"PRAGMA max_page_count={pages}")

    await store._database.run(work)


async def test_full_disk_rejects_additions_and_defers_deletions(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    ready, running = await _two(path)
    store = await Store.open(path)
    await _limit(store, 1)
    large = replace(ready, config=pb.PodSandboxConfig(hostname="x" * 50_000).SerializeToString())
    with pytest.raises(Transient, match="disk full"):
        await store.sandboxes.add(replace(large, id=SandboxID("s2"), name="other"))
    with pytest.raises(Transient, match="disk full"):
        await store.sandboxes.put(large)
    await store.sandboxes.note(large)
    assert (await store.load())[0] == [ready]
    await store.containers.delete(running.id)
    await _limit(store, 1 << 20)
    await store.containers.add(replace(CONTAINER, id=ContainerID("c2")))
    assert await store.load() == ([large], [replace(CONTAINER, id=ContainerID("c2"))])
    await store.close()


async def test_intact_file_is_not_set_aside_for_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.db"
    ready, running = await _two(path)
    genuine = sqlite3.connect

    def full(*arguments: str, **options: bool) -> sqlite3.Connection:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    monkeypatch.setattr(sqlite3, "connect", full)
    with pytest.raises(Transient, match="disk full"):
        await Store.open(path)
    monkeypatch.setattr(sqlite3, "connect", genuine)
    store = await Store.open(path)
    assert store.intact
    assert await store.load() == ([ready], [running])
    await store.close()


async def test_file_of_a_newer_version_is_kept_and_its_records_are_taken_from_the_copies(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    ready, running = await _two(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    store = await Store.open(path)
    assert not store.intact
    assert await store.load() == ([ready], [running])
    await store.close()
    (kept,) = tmp_path.glob("state.db.damaged-*Z")
    connection = sqlite3.connect(kept)
    assert connection.execute("PRAGMA user_version").fetchone() == (99,)
    connection.close()


async def test_other_users_cannot_read_the_records(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.touch(mode=0o644)
    store = await Store.open(path)
    await store.sandboxes.add(SANDBOX)
    try:
        modes = {str(file.relative_to(tmp_path)): file.stat().st_mode & 0o777 for file in tmp_path.rglob("*")}
        files = ("state.db", "state.db-wal", "state.db-shm", "records/sandboxes/s1.json")
        directories = ("records", "records/sandboxes", "records/containers")
        assert modes == dict.fromkeys(files, 0o600) | dict.fromkeys(directories, 0o700)
    finally:
        await store.close()


async def test_commits_wait_for_no_disk_and_survive_the_process(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "state.db")
    mode = await store._database.run(lambda connection: connection.execute("PRAGMA synchronous").fetchone())
    assert mode == (1,)
    await store.close()

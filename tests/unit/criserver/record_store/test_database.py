"""The state file: detection of damage, and files that are set aside."""

import asyncio
import errno
import logging
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Transient
from pykubelet.criserver.record_store import Store, database
from pykubelet.criserver.types import ContainerRecord, SandboxPhase, SandboxRecord
from pykubelet.testing.clock import VirtualClock
from tests.unit.criserver.record_store.records import CONTAINER, SANDBOX

_NOW = 1_700_000_000
_ASIDE = "state.db.damaged-20231114T221320Z"
_PARTS = ("", "-wal", "-shm")


async def _filled(path: Path) -> None:
    store = await Store.open(path)
    await store.sandboxes.add(SANDBOX)
    await store.containers.add(CONTAINER)
    await store.close()


async def _read(path: Path) -> tuple[bool, tuple[list[SandboxRecord], list[ContainerRecord]]]:
    """Whether the next server finds the file intact, and the records that it reads."""
    store = await Store.open(path, VirtualClock(_NOW))
    try:
        records = await store.load()
        return store.intact, records
    finally:
        await store.close()


async def test_file_with_a_damaged_page_that_no_query_reads_at_start_is_restored(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    await _filled(path)
    connection = sqlite3.connect(path)
    query = "SELECT rootpage FROM sqlite_master WHERE name LIKE 'sqlite_autoindex_containers%'"
    ((page,),) = connection.execute(query).fetchall()
    ((size,),) = connection.execute("PRAGMA page_size").fetchall()
    connection.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(bytes(size))
    assert await _read(path) == (False, ([SANDBOX], [CONTAINER]))
    assert (tmp_path / _ASIDE).exists()
    assert await _read(path) == (True, ([SANDBOX], [CONTAINER]))


async def test_file_set_aside_keeps_the_log_of_a_killed_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last changes are only in the write-ahead log, which a new file of that name would delete."""
    path, killed = tmp_path / "state.db", tmp_path / "killed"
    killed.mkdir()
    await _filled(path)
    store = await Store.open(path)
    await store.sandboxes.put(replace(SANDBOX, phase=SandboxPhase.STOPPED))
    for part in _PARTS:
        shutil.copy(f"{path}{part}", killed)
    await store.close()
    before = {part: Path(f"{killed}/state.db{part}").read_bytes() for part in _PARTS}
    assert all(before.values())
    monkeypatch.setattr(database, "_MOST", 1)
    sound, _ = await _read(killed / "state.db")
    assert not sound
    assert {part: Path(f"{killed}/{_ASIDE}{part}").read_bytes() for part in _PARTS} == before


async def test_file_of_the_maximum_size_is_not_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.db"
    await _filled(path)
    monkeypatch.setattr(database, "_MOST", path.stat().st_size)
    assert await _read(path) == (True, ([SANDBOX], [CONTAINER]))
    monkeypatch.setattr(database, "_MOST", path.stat().st_size - 1)
    assert await _read(path) == (False, ([SANDBOX], [CONTAINER]))
    assert (tmp_path / _ASIDE).exists()


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo], ids=["directory", "fifo"])
@pytest.mark.parametrize("part", _PARTS)
async def test_irregular_file_in_its_place_is_set_aside(
    tmp_path: Path, make: Callable[[Path], None], part: str
) -> None:
    path = tmp_path / "state.db"
    await _filled(path)
    in_its_place = tmp_path / f"state.db{part}"
    in_its_place.unlink(missing_ok=True)
    make(in_its_place)
    assert await _read(path) == (False, ([SANDBOX], [CONTAINER]))
    assert not Path(f"{tmp_path}/{_ASIDE}{part}").is_file()
    assert os.path.lexists(f"{tmp_path}/{_ASIDE}{part}")


@pytest.mark.parametrize(
    "code",
    [
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_IOERR_READ,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
    ],
)
async def test_io_error_at_open_keeps_the_file_and_leaves_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    path = tmp_path / "state.db"
    await _filled(path)
    before = _threads()

    def failing(*_: object, **__: object) -> sqlite3.Connection:
        error = sqlite3.OperationalError("the machine says no")
        error.sqlite_errorcode = code
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", failing)
        with pytest.raises(Transient, match="the machine says no"):
            await Store.open(path)
    assert _threads() == before
    assert list(tmp_path.glob("*.damaged-*")) == []
    assert await _read(path) == (True, ([SANDBOX], [CONTAINER]))


async def test_store_closed_leaves_no_thread(tmp_path: Path) -> None:
    before = _threads()
    store = await Store.open(tmp_path / "state.db")
    assert len(_threads()) == len(before) + 1
    await store.close()
    assert _threads() == before


def _threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("store")]


async def test_files_set_aside_in_one_second_are_numbered(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    for _ in range(3):
        path.write_bytes(b"garbage" * 1000)
        await _read(path)
    assert {file.name for file in tmp_path.glob("*.damaged-*")} == {_ASIDE, f"{_ASIDE}-2", f"{_ASIDE}-3"}


@pytest.mark.parametrize(("older", "newer"), [("state.db", "state-2.db"), ("state-2.db", "state.db")])
async def test_of_two_files_the_copies_tell_the_newest_records(tmp_path: Path, older: str, newer: str) -> None:
    """A check of the file system has repaired the former file, or an older server has made it again."""
    path, former = tmp_path / "state.db", tmp_path / "former"
    await _filled(path)
    shutil.copy(path, former)
    store = await Store.open(path)
    await store.containers.delete(CONTAINER.id)
    await store.sandboxes.put(stopped := replace(SANDBOX, phase=SandboxPhase.STOPPED))
    await store.close()
    path.rename(tmp_path / newer)
    former.rename(tmp_path / older)
    assert await _read(path) == (False, ([stopped], []))
    assert len(list(tmp_path.glob("*.db.damaged-*"))) == 2
    assert await _read(path) == (True, ([stopped], []))


async def test_directory_of_the_file_is_private(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "new" / "state.db")
    await store.close()
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


async def test_note_of_a_deleted_record_leaves_no_copy(tmp_path: Path) -> None:
    """A damaged file would be restored with it."""
    path = tmp_path / "state.db"
    await _filled(path)
    store = await Store.open(path)
    await store.containers.delete(CONTAINER.id)
    await asyncio.gather(store.containers.note(CONTAINER), store.containers.put(CONTAINER))
    await store.close()
    path.unlink()
    assert await _read(path) == (False, ([SANDBOX], []))


async def test_copies_beside_a_damaged_file_are_all_kept(tmp_path: Path) -> None:
    """The file takes the newer of two copies of one name; which one is right is unknown."""
    path, containers = tmp_path / "state.db", tmp_path / "records" / "containers"
    await _filled(path)
    (containers / "a1.json").write_bytes(b"cut")
    path.unlink()
    assert await _read(path) == (False, ([SANDBOX], [CONTAINER]))
    assert {file.stem for file in containers.iterdir()} == {"a1", "c1"}
    assert await _read(path) == (True, ([SANDBOX], [CONTAINER]))
    assert {file.stem for file in containers.iterdir()} == {"c1"}


async def test_record_restored_from_its_copy_is_valid_for_the_next_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "state.db"
    await _filled(path)
    _damage(path, "containers")
    await _read(path)
    assert [_reported(entry) for entry in caplog.records if entry.levelno == logging.ERROR] == [("c1", "used")]
    (tmp_path / "records" / "containers" / "c1.json").unlink()
    assert await _read(path) == (True, ([SANDBOX], [CONTAINER]))


async def test_record_damaged_with_its_copy_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "state.db"
    await _filled(path)
    _damage(path, "containers")
    copy = tmp_path / "records" / "containers" / "c1.json"
    copy.write_bytes(b"\0")
    assert await _read(path) == (False, ([SANDBOX], []))
    assert copy.read_bytes() == b"\0"
    assert [_reported(entry) for entry in caplog.records if entry.levelno == logging.ERROR] == [("c1", "damaged too")]


def _damage(path: Path, table: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(f"UPDATE {table} SET body = x'00'")
    connection.close()


def _reported(entry: logging.LogRecord) -> tuple[object, object]:
    return getattr(entry, "id", None), getattr(entry, "copy", None)


async def test_lost_copies_of_an_intact_file_are_written_again(tmp_path: Path) -> None:
    path, records = tmp_path / "state.db", tmp_path / "records"
    await _filled(path)
    shutil.rmtree(records)
    assert await _read(path) == (True, ([SANDBOX], [CONTAINER]))
    path.unlink()
    assert await _read(path) == (False, ([SANDBOX], [CONTAINER]))


async def test_newest_damaged_files_are_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each start can find another one, for instance on a failing disk."""
    path, kept = tmp_path / "state.db", tmp_path / "state.db.damaged-mine"
    kept.touch()
    (tmp_path / "state-2.db.damaged-20230101T000000Z-2").mkdir()
    for number in range(3):
        (tmp_path / f"state.db.damaged-2023010{number}T000000Z").touch()
        (tmp_path / f"state.db.damaged-2023010{number}T000000Z-wal").touch()
    for _ in range(2):
        path.write_bytes(b"garbage" * 1000)
        await _read(path)
    names = {file.name for file in tmp_path.glob("*.damaged-2*")}
    former = "state.db.damaged-20230102T000000Z"
    assert names == {_ASIDE, f"{_ASIDE}-2", former, f"{former}-wal"}
    assert kept.exists()
    assert "damaged state file removed" in caplog.text


async def test_damaged_file_of_a_wrong_clock_keeps_no_other_from_being_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    for number in range(4):
        (tmp_path / f"state.db.damaged-2099010{number + 1}T000000Z").touch()
    path.write_bytes(b"garbage" * 1000)
    await _read(path)
    names = {file.name for file in tmp_path.glob("*.damaged-*")}
    assert names == {_ASIDE, *(f"state.db.damaged-2099010{number}T000000Z" for number in (3, 4))}


async def test_damaged_file_that_cannot_be_removed_keeps_no_server_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path, unlink = tmp_path / "state.db", Path.unlink

    def refuse(file: Path, missing_ok: bool = False) -> None:
        if "2023010" in file.name:
            raise OSError(errno.EIO, "Input/output error")
        unlink(file, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    for number in range(4):
        (tmp_path / f"state.db.damaged-2023010{number}T000000Z").touch()
    path.write_bytes(b"garbage" * 1000)
    assert await _read(path) == (False, ([], []))
    assert "damaged state file cannot be removed" in caplog.text

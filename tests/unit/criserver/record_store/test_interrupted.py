"""A server that is killed at any step of a start or a change lets no records return that were out of date."""

import shutil
from itertools import count
from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.criserver.record_store import Store
from pykubelet.criserver.types import ContainerRecord, SandboxPhase, SandboxRecord
from tests.unit.criserver.interruptions import bad_inode, killed
from tests.unit.criserver.record_store.records import CONTAINER, SANDBOX

_NEWEST = replace(SANDBOX, phase=SandboxPhase.STOPPED)
_LATER = replace(_NEWEST, ips=("10.0.0.9",))


async def _read(path: Path) -> tuple[list[SandboxRecord], list[ContainerRecord]]:
    store = await Store.open(path)
    try:
        return await store.load()
    finally:
        await store.close()


async def _two_versions(path: Path, older: str, newer: str) -> None:
    """Make two state files, one of which is out of date; the copies are those of the other."""
    store = await Store.open(path)
    await store.sandboxes.add(SANDBOX)
    await store.containers.add(CONTAINER)
    await store.close()
    shutil.copy(path, path.with_name("former"))
    store = await Store.open(path)
    await store.containers.delete(CONTAINER.id)
    await store.sandboxes.put(_NEWEST)
    await store.close()
    path.rename(path.with_name(newer))
    path.with_name("former").rename(path.with_name(older))


async def _check_newest(path: Path) -> None:
    """The newest records are there, also after a further change, and whenever the file is damaged."""
    assert await _read(path) == ([_NEWEST], [])
    store = await Store.open(path)
    await store.sandboxes.put(_LATER)
    await store.close()
    assert await _read(path) == ([_LATER], [])
    for file in path.parent.glob("state*.db"):
        file.write_bytes(b"garbage" * 1000)
    assert await _read(path) == ([_LATER], [])
    assert await _read(path) == ([_LATER], [])


@pytest.mark.parametrize(("older", "newer"), [("state.db", "state-2.db"), ("state-2.db", "state.db")])
async def test_start_with_two_files_that_is_interrupted_lets_no_older_one_return(
    tmp_path: Path, older: str, newer: str
) -> None:
    for step in count(1):
        path = tmp_path / str(step) / "state.db"
        path.parent.mkdir()
        await _two_versions(path, older, newer)
        with killed(step) as kill:
            await _read(path)
        await _check_newest(path)
        if not kill.done:
            break
    assert step > 8


async def test_start_with_a_damaged_file_that_is_interrupted_lets_no_former_one_return(tmp_path: Path) -> None:
    """``state-2.db`` has followed a file that the file system could not look up, and is damaged now; then fsck runs."""
    for step in count(1):
        path = tmp_path / str(step) / "state.db"
        path.parent.mkdir()
        await _two_versions(path, "state.db", "state-2.db")
        path.with_name("state-2.db").write_bytes(b"garbage" * 1000)
        with bad_inode(path), killed(step) as kill:
            await _read(path)
        await _check_newest(path)
        if not kill.done:
            break
    assert step > 8


async def test_change_that_is_interrupted_leaves_the_record_before_or_after_it(tmp_path: Path) -> None:
    for step in count(1):
        path = tmp_path / str(step) / "state.db"
        path.parent.mkdir()
        await _two_versions(path, "older", "state.db")
        store = await Store.open(path)
        with killed(step) as kill:
            await store.sandboxes.put(_LATER)
        files = path.parent / "files"  # as they are when the process ends
        shutil.copytree(path.parent, files)
        await store.close()
        for damaged in (False, True):
            copy = tmp_path / f"{step}-{damaged}"
            shutil.copytree(files, copy)
            if damaged:
                (copy / "state.db").write_bytes(b"garbage" * 1000)
            records = await _read(copy / "state.db")
            assert records in (([_NEWEST], []), ([_LATER], []))
            store = await Store.open(copy / "state.db")
            await store.sandboxes.put(further := replace(_LATER, ips=("10.0.0.10",)))
            await store.close()
            (copy / "state.db").write_bytes(b"garbage" * 1000)
            assert await _read(copy / "state.db") == ([further], [])
        if not kill.done:
            break
    assert step > 2

"""The watch of the configuration's files, with the kernel's inotify."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pykubelet.base.errors import Transient
from pykubelet.kubelet.reload.config_watch import watch
from pykubelet.kubelet.reload.plan.settling import FileChange
from pykubelet.testing.wait import until

Notes = list[tuple[str, FileChange]]


@asynccontextmanager
async def watching(
    file: Path | None, directory: Path | None = None
) -> AsyncIterator[tuple[Notes, "asyncio.Task[None]"]]:
    notes: Notes = []

    def note(name: str, change: FileChange) -> None:
        notes.append((name, change))

    task = asyncio.create_task(watch(file, directory, note))
    try:
        await until(lambda: notes or task.done())
        notes.clear()
        yield notes, task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_file_that_is_renamed_into_place_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("a")
    async with watching(file) as (notes, _):
        (tmp_path / "other").write_text("b")
        (tmp_path / "other").rename(file)
        await until(lambda: notes)
        assert notes == [("config.yaml", FileChange.COMPLETE)]


async def test_file_is_complete_when_its_writer_has_closed_it(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("a")
    async with watching(file) as (notes, _):
        with file.open("a") as writer:
            writer.write("b")
            writer.flush()
            await until(lambda: notes)
            assert {change for _, change in notes} == {FileChange.WRITTEN}
        await until(lambda: notes[-1][1] is FileChange.COMPLETE)


async def test_new_version_of_a_config_map_is_reported(tmp_path: Path) -> None:
    for name in ("..1", "..2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(name)
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "config.yaml").symlink_to("..data/config.yaml")
    async with watching(tmp_path / "config.yaml") as (notes, task):
        (tmp_path / "..data_tmp").symlink_to("..2")
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")
        await until(task.done)
        assert ("..data", FileChange.COMPLETE) in notes


async def test_target_of_a_link_is_watched(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "a.yaml"
    target.write_text("a")
    (tmp_path / "config.yaml").symlink_to(target)
    async with watching(tmp_path / "config.yaml") as (notes, _):
        target.write_text("b")
        await until(lambda: ("a.yaml", FileChange.COMPLETE) in notes)


async def test_drop_in_files_and_new_directories_are_reported(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    async with watching(None, tmp_path) as (notes, task):
        (tmp_path / "sub" / "a.conf").write_text("a")
        await until(lambda: ("a.conf", FileChange.COMPLETE) in notes)
        (tmp_path / "sub" / "notes.txt").write_text("a")
        (tmp_path / "a.conf").write_text("a")
        (tmp_path / "a.conf").unlink()
        await until(lambda: ("a.conf", FileChange.VANISHED) in notes)
        assert "notes.txt" not in {name for name, _ in notes}
        assert not task.done()
        (tmp_path / "more").mkdir()
        await until(task.done)


async def test_directory_that_does_not_exist_cannot_be_watched(tmp_path: Path) -> None:
    with pytest.raises(Transient, match="cannot be watched"):
        await watch(tmp_path / "none" / "config.yaml", None, lambda name, change: None)

"""The watch of the configuration's files, with the kernel's inotify."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pykubelet.base.errors import Transient
from pykubelet.kubelet.reload.config_watch import watch
from pykubelet.kubelet.reload.plan.settling import FileChange
from pykubelet.testing.wait import settle, until

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
        await settle()  # until it has looked at the paths again
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


@pytest.mark.parametrize(
    ("path", "link", "target"),
    [("current", "current", "2/d"), ("current/d", "current", "2"), ("d/a.conf", "d/a.conf", "../2/d/a.conf")],
)
@pytest.mark.parametrize("of", ["file", "directory"])
async def test_link_that_leads_elsewhere_is_reported(
    tmp_path: Path, path: str, link: str, target: str, of: str
) -> None:
    for version in ("1", "2"):
        (tmp_path / version / "d").mkdir(parents=True)
        (tmp_path / version / "d" / "a.conf").write_text(version)
    (tmp_path / "d").mkdir()
    (tmp_path / link).symlink_to(target.replace("2", "1"))
    directory = tmp_path / path if not path.endswith("conf") else tmp_path / "d"
    paths = (directory / "a.conf", None) if of == "file" else (None, directory)
    async with watching(*paths) as (notes, task):
        (tmp_path / "new").symlink_to(target)
        (tmp_path / "new").rename(tmp_path / link)
        await until(task.done)
        assert FileChange.COMPLETE in [change for _, change in notes]
    async with watching(*paths) as (notes, task):
        (tmp_path / "2" / "d" / "a.conf").write_text("3")
        await until(lambda: ("a.conf", FileChange.COMPLETE) in notes)
        assert not task.done()


async def test_other_files_beside_a_link_are_not_reported(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "a.conf").write_text("1")
    (tmp_path / "current").symlink_to("1")
    async with watching(tmp_path / "current" / "a.conf", tmp_path / "current") as (notes, task):
        (tmp_path / "other").mkdir()
        (tmp_path / "b.conf").write_text("1")
        (tmp_path / "1" / "a.conf").write_text("2")
        await until(lambda: ("a.conf", FileChange.COMPLETE) in notes)
        assert {name for name, _ in notes} == {"a.conf"} and not task.done()


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


async def test_directory_that_comes_later_is_reported(tmp_path: Path) -> None:
    async with watching(tmp_path / "none" / "config.yaml", tmp_path / "d") as (notes, task):
        (tmp_path / "d").mkdir()
        await until(task.done)
        assert notes == [("d", FileChange.VANISHED)]
    async with watching(tmp_path / "none" / "config.yaml", tmp_path / "d") as (_, task):
        (tmp_path / "none").mkdir()
        await until(task.done)


async def test_directory_that_is_a_file_cannot_be_watched(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Transient, match="cannot be watched"):
        await watch(None, tmp_path / "file", lambda name, change: None)

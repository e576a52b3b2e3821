"""The file source, first by hand on a virtual clock, then on a real directory with real inotify."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pykubelet.base.clock import Clock, SystemClock
from pykubelet.base.errors import Transient
from pykubelet.kubelet.desired.sources import disk, file_source
from pykubelet.kubelet.desired.sources.file_source import FileSource
from pykubelet.kubelet.desired.sources.plan.pending_reads import PATIENCE, UNCLOSED, VANISHED, ManifestChange
from pykubelet.kubelet.desired.sources.source_types import FileSourceConfig, SourceContent
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.wait import until
from tests.unit.kubelet.desired.sources.samples import config_map, images, pod


class ManualSource:
    """A source whose looks the test makes."""

    def __init__(self, path: Path, backup: Path | None = None) -> None:
        self.clock = VirtualClock()
        self.delivered: list[SourceContent] = []
        config = FileSourceConfig(path, "n", backup=backup)
        self.source = FileSource(config=config, deliver=self.delivered.append, clock=self.clock)

    async def look(self) -> dict[str, str]:
        await self.source.rescan()
        return images(self.delivered[-1])


async def test_missing_directory_is_read_as_empty(tmp_path: Path) -> None:
    hand = ManualSource(tmp_path / "none")
    assert await hand.look() == {}
    assert hand.delivered[0].read
    await hand.look()
    assert len(hand.delivered) == 1


async def test_only_changes_are_delivered(tmp_path: Path) -> None:
    hand = ManualSource(tmp_path)
    (tmp_path / "a.yaml").write_text(pod("a") + config_map("c"))
    assert await hand.look() == {"a-n": "busybox:1"}
    assert [each.metadata.name for each in hand.delivered[0].objects] == ["c"]
    await hand.look()
    assert len(hand.delivered) == 1
    (tmp_path / "a.yaml").write_text(pod("a", "new"))
    assert await hand.look() == {"a-n": "new"}


async def test_broken_file_keeps_its_pods_and_is_reported(tmp_path: Path) -> None:
    hand = ManualSource(tmp_path)
    (tmp_path / "a.yaml").write_text(pod("a"))
    before = await hand.look()
    (tmp_path / "a.yaml").write_text(pod("a")[:60] + "\n  x: [")
    assert await hand.look() == before
    assert hand.delivered[-1].pods == hand.delivered[0].pods
    assert hand.delivered[-1].states[0].problems
    assert [str(key) for key in hand.delivered[-1].states[0].kept] == ["Pod default/a"]


async def test_vanished_file_counts_as_removed_after_a_delay(tmp_path: Path) -> None:
    hand = ManualSource(tmp_path)
    file = tmp_path / "a.yaml"
    file.write_text(pod("a"))
    await hand.look()
    file.unlink()
    assert await hand.look() == {"a-n": "busybox:1"}
    await hand.clock.advance(VANISHED)
    assert await hand.look() == {}


async def test_file_that_reappears_in_time_is_not_removed(tmp_path: Path) -> None:
    hand = ManualSource(tmp_path)
    file = tmp_path / "a.yaml"
    file.write_text(pod("a"))
    await hand.look()
    file.rename(tmp_path / "a.yaml~")
    hand.source.note("a.yaml", ManifestChange.VANISHED)
    await hand.clock.advance(VANISHED / 2)
    await hand.look()
    file.write_text(pod("a"))
    await hand.clock.advance(VANISHED)
    await hand.look()
    assert len(hand.delivered) == 1


async def test_file_that_is_deleted_and_written_again_is_removed_and_added(tmp_path: Path) -> None:
    hand = ManualSource(tmp_path)
    file = tmp_path / "a.yaml"
    file.write_text(pod("a"))
    (tmp_path / "b.yaml").write_text(pod("b"))
    await hand.look()
    hand.source.note("a.yaml", ManifestChange.DELETED)
    hand.source.note("a.yaml", ManifestChange.WRITTEN)
    hand.source.note("a.yaml", ManifestChange.CLOSED)
    await hand.clock.advance(VANISHED)
    await hand.look()
    names = [[each.metadata.name for each in content.pods] for content in hand.delivered]
    assert names == [["a-n", "b-n"], ["b-n"], ["a-n", "b-n"]]
    assert hand.delivered[0].pods == hand.delivered[2].pods


async def test_a_directory_that_vanishes_takes_its_pods_along(tmp_path: Path) -> None:
    directory = tmp_path / "m"
    directory.mkdir()
    (directory / "a.yaml").write_text(pod("a"))
    hand = ManualSource(directory)
    await hand.look()
    (directory / "a.yaml").unlink()
    directory.rmdir()
    await hand.look()
    await hand.clock.advance(VANISHED)
    assert await hand.look() == {}


async def test_copies_of_removed_files_are_deleted(tmp_path: Path) -> None:
    directory, copies = tmp_path / "m", tmp_path / "copies"
    directory.mkdir()
    (directory / "a.yaml").write_text(pod("a"))
    hand = ManualSource(directory, copies)
    await hand.look()
    assert len(list(copies.iterdir())) == 1
    (directory / "a.yaml").unlink()
    await hand.look()
    assert len(list(copies.iterdir())) == 1
    await hand.clock.advance(VANISHED)
    await hand.look()
    assert list(copies.iterdir()) == []


async def test_an_unreadable_directory_is_not_an_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.yaml").write_text(pod("a"))
    clock, delivered = VirtualClock(), list[SourceContent]()
    source = FileSource(config=FileSourceConfig(tmp_path, "n"), deliver=delivered.append, clock=clock)
    broken = True
    real = disk.read_changed

    def flaky(*arguments: object) -> object:
        if broken:
            raise Transient("the disk is on fire")
        return real(*arguments)  # type: ignore[arg-type] # passed on as they came

    async def no_watch(path: Path, note: object, everything: Callable[[], None]) -> None:
        everything()
        await asyncio.Event().wait()

    monkeypatch.setattr(disk, "read_changed", flaky)
    monkeypatch.setattr(file_source, "watch", no_watch)
    async with running(source):
        await until(lambda: bool(delivered))
        assert not delivered[0].read
        assert [str(problem) for problem in delivered[0].states[-1].problems] == [f"{tmp_path}: the disk is on fire"]
        broken = False
        await until(lambda: bool(clock.sleepers))
        await clock.advance(1.0)
        await until(lambda: delivered[-1].read)
        assert images(delivered[-1]) == {"a-n": "busybox:1"}
        broken = True
        await until(lambda: bool(clock.sleepers))
        await clock.advance(20.0)
        await until(lambda: not delivered[-1].read)
        assert [bool(state.problems) for state in delivered[-1].states] == [False, True]


async def test_everything_is_read_again_every_20_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without inotify only costs time."""

    async def failing_watch(*_: object) -> None:
        raise Transient("no inotify here")

    monkeypatch.setattr(file_source, "watch", failing_watch)
    clock, delivered = VirtualClock(), list[SourceContent]()
    source = FileSource(config=FileSourceConfig(tmp_path, "n"), deliver=delivered.append, clock=clock)
    async with running(source):
        await until(lambda: bool(delivered) and clock.sleepers >= 2)
        (tmp_path / "a.yaml").write_text(pod("a"))
        await clock.advance(19.9)
        assert len(delivered) == 1
        await clock.advance(0.2)
        await until(lambda: len(delivered) == 2)
        assert images(delivered[-1]) == {"a-n": "busybox:1"}


@asynccontextmanager
async def running(source: FileSource) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(source.run(), name="source-under-test")
        yield
        task.cancel()


class LiveSource:
    """A source on a real directory, clock and inotify."""

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self.delivered: list[SourceContent] = []
        config = FileSourceConfig(path, "n", rescan=3600)
        self.source = FileSource(config=config, deliver=self.delivered.append, clock=clock or SystemClock())

    async def until(self, wanted: dict[str, str]) -> None:
        await until(lambda: bool(self.delivered) and images(self.delivered[-1]) == wanted)


async def test_live_file_changes_are_delivered(tmp_path: Path) -> None:
    live = LiveSource(tmp_path)
    async with running(live.source):
        await live.until({})
        (tmp_path / "a.yaml").write_text(pod("a"))
        await live.until({"a-n": "busybox:1"})
        (tmp_path / "a.yaml").write_text(pod("a", "two"))
        await live.until({"a-n": "two"})
        (tmp_path / ".b.tmp").write_text(pod("b"))
        (tmp_path / ".b.tmp").rename(tmp_path / "b.yaml")
        await live.until({"a-n": "two", "b-n": "busybox:1"})
        (tmp_path / "a.yaml").unlink()
        await live.until({"b-n": "busybox:1"})


async def test_live_an_editor_that_moves_the_old_version_away(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(pod("a"))
    live = LiveSource(tmp_path)
    async with running(live.source):
        await live.until({"a-n": "busybox:1"})
        file.rename(tmp_path / "a.yaml~")
        file.write_text(pod("a", "two"))
        (tmp_path / "a.yaml~").unlink()
        await live.until({"a-n": "two"})
        assert [images(content) for content in live.delivered] == [{"a-n": "busybox:1"}, {"a-n": "two"}]


async def test_live_a_file_written_in_two_pieces(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(pod("a"))
    clock = VirtualClock()
    live = LiveSource(tmp_path, clock)
    async with running(live.source):
        await live.until({"a-n": "busybox:1"})
        await until(lambda: bool(clock.sleepers))
        with file.open("w") as out:
            out.write(pod("a", "two"))
            out.flush()
            await until(lambda: live.source.waiting() == {"a.yaml"})
            await clock.advance(UNCLOSED / 2)
            out.write(pod("b", "three"))
        await until(lambda: bool(clock.sleepers))
        await clock.advance(PATIENCE)
        await live.until({"a-n": "two", "b-n": "three"})
        assert len(live.delivered) == 2, "the first half was taken for the whole"


async def test_live_a_directory_that_comes_later_and_goes(tmp_path: Path) -> None:
    directory = tmp_path / "m"
    live = LiveSource(directory)
    async with running(live.source):
        await live.until({})
        directory.mkdir()
        (directory / "a.yaml").write_text(pod("a"))
        await live.until({"a-n": "busybox:1"})
        (directory / "b.yaml").write_text(pod("b"))
        await live.until({"a-n": "busybox:1", "b-n": "busybox:1"})
        directory.rename(tmp_path / "moved")
        await live.until({})
        (tmp_path / "moved").rename(directory)
        await live.until({"a-n": "busybox:1", "b-n": "busybox:1"})


async def test_live_changes_of_a_single_file_are_delivered(tmp_path: Path) -> None:
    file = tmp_path / "pods.yaml"
    live = LiveSource(file)
    async with running(live.source):
        await live.until({})
        (tmp_path / "other.yaml").write_text(pod("x"))
        file.write_text(pod("a"))
        await live.until({"a-n": "busybox:1"})
        (tmp_path / "new").write_text(pod("a", "two"))
        (tmp_path / "new").rename(file)
        await live.until({"a-n": "two"})
        file.unlink()
        await live.until({})


async def test_live_a_config_map_volume_is_switched_over(tmp_path: Path) -> None:
    for version in ("1", "2"):
        (tmp_path / f"..{version}").mkdir()
        (tmp_path / f"..{version}" / "a.yaml").write_text(pod("a", f"v{version}"))
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    live = LiveSource(tmp_path)
    async with running(live.source):
        await live.until({"a-n": "v1"})
        (tmp_path / "..tmp").symlink_to("..2")
        (tmp_path / "..tmp").rename(tmp_path / "..data")
        await live.until({"a-n": "v2"})


@pytest.mark.parametrize(
    ("path", "name", "target"), [("current", "", "2/m"), ("current/m", "", "2"), ("current", "a.yaml", "2/m")]
)
async def test_live_a_link_that_leads_elsewhere(tmp_path: Path, path: str, name: str, target: str) -> None:
    """As git-sync replaces it: `current` leads to another revision. Of a directory, and of a single file."""
    for version in ("1", "2"):
        (tmp_path / version / "m").mkdir(parents=True)
        (tmp_path / version / "m" / "a.yaml").write_text(pod("a", f"v{version}"))
    link = tmp_path / "current"
    link.symlink_to(target.replace("2", "1"))
    live = LiveSource(tmp_path / path / name)
    async with running(live.source):
        await live.until({"a-n": "v1"})
        (tmp_path / "new").symlink_to(target)
        (tmp_path / "new").rename(link)
        await live.until({"a-n": "v2"})
        (tmp_path / "2" / "m" / "a.yaml").write_text(pod("a", "v3"))
        await live.until({"a-n": "v3"})


async def test_live_files_elsewhere_to_which_links_in_the_directory_lead(tmp_path: Path) -> None:
    manifests, elsewhere = tmp_path / "m", tmp_path / "elsewhere"
    for directory in (manifests, elsewhere):
        directory.mkdir()
    (elsewhere / "file").write_text(pod("a", "v1"))
    (manifests / "a.yaml").symlink_to("../elsewhere/file")
    for name, target in (("c", "../elsewhere"), ("d", "d.yaml"), ("e", "/dev/null/e"), ("f", "x" * 300)):
        (manifests / f"{name}.yaml").symlink_to(target)  # these keep no other from being watched
    live = LiveSource(manifests)
    async with running(live.source):
        await live.until({"a-n": "v1"})
        (elsewhere / "file").write_text(pod("a", "v2"))
        await live.until({"a-n": "v2"})
        (elsewhere / "other").write_text(pod("b", "v1"))
        (manifests / "b.yaml").symlink_to("../elsewhere/other")
        await live.until({"a-n": "v2", "b-n": "v1"})
        (elsewhere / "new").write_text(pod("b", "v2"))
        (elsewhere / "new").rename(elsewhere / "other")
        await live.until({"a-n": "v2", "b-n": "v2"})
        (manifests / "a.yaml").unlink()
        await live.until({"b-n": "v2"})
        (elsewhere / "other").unlink()
        (manifests / "b.yaml").unlink()
        await live.until({})


async def test_changed_interval_reads_all_files_now_and_then_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand, reads = ManualSource(tmp_path), list[float]()
    begin = hand.clock.monotonic()

    async def rescan() -> None:
        hand.source._rescan_at = math.inf
        reads.append(hand.clock.monotonic() - begin)

    monkeypatch.setattr(hand.source, "rescan", rescan)
    task = asyncio.create_task(hand.source._read())
    await hand.clock.advance(5)
    hand.source.reconfigure(3600)
    await hand.clock.advance(100)
    hand.source.reconfigure(30)
    await hand.clock.advance(61)
    task.cancel()
    await asyncio.wait([task])
    assert reads == [0, 5, 105, 135, 165]

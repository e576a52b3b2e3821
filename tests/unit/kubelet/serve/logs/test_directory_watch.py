"""The shared inotify instance."""

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import Transient
from pykubelet.kubelet.serve.logs import directory_watch
from pykubelet.kubelet.serve.logs.directory_watch import DirWatcher
from pykubelet.testing.wait import until


@asynccontextmanager
async def watching(clock: SystemClock | None = None) -> AsyncIterator[DirWatcher]:
    watcher = DirWatcher(clock or SystemClock())
    async with asyncio.TaskGroup() as group:
        task = group.create_task(watcher.run())
        await asyncio.sleep(0)
        try:
            yield watcher
        finally:
            task.cancel()


async def fires(event: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(5):
            await event.wait()
    except TimeoutError:
        return False
    event.clear()
    return True


async def test_changes_wake_watchers_of_the_directory(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    async with watching() as watcher:
        with watcher.watch(str(one)) as first, watcher.watch(str(one)) as also, watcher.watch(str(two)) as other:
            (one / "a.log").write_text("x")
            assert await fires(first) and await fires(also)
            (two / "a.log").write_text("x")
            assert await fires(other)
            assert not first.is_set()
            (one / "a.log").rename(one / "b.log")
            assert await fires(first)


async def test_one_of_two_watchers_of_a_directory_leaves(tmp_path: Path) -> None:
    async with watching() as watcher:
        with watcher.watch(str(tmp_path)) as stays:
            with watcher.watch(str(tmp_path)):
                pass
            (tmp_path / "a").touch()
            assert await fires(stays)
        with watcher.watch(str(tmp_path)) as again:
            (tmp_path / "b").touch()
            assert await fires(again)


async def test_a_directory_that_goes_away(tmp_path: Path) -> None:
    directory = tmp_path / "gone"
    directory.mkdir()
    async with watching() as watcher:
        with watcher.watch(str(directory)) as event:
            directory.rmdir()
            assert await fires(event)


async def test_watching_a_missing_directory_raises(tmp_path: Path) -> None:
    async with watching() as watcher:
        with pytest.raises(Transient, match="cannot watch"), watcher.watch(str(tmp_path / "none")):
            raise AssertionError


async def test_watch_fails_while_no_inotify_instance_is_available(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Containers of root can exhaust the inotify instances: the server keeps running, followers get an error."""

    def exhausted() -> object:
        raise OSError(errno.EMFILE, "Too many open files")

    async with watching() as watcher:
        with monkeypatch.context() as patch:
            patch.setattr(directory_watch, "Inotify", exhausted)
            with pytest.raises(Transient, match="max_user_instances"), watcher.watch(str(tmp_path)):
                pass
        with watcher.watch(str(tmp_path)) as changed:
            (tmp_path / "x").touch()
            assert await fires(changed)


async def test_error_of_the_watcher_does_not_end_it(tmp_path: Path) -> None:
    class BrokenEvent(asyncio.Event):
        """Raises once, as a defect would."""

        raised = False

        def set(self) -> None:
            if not self.raised:
                self.raised = True
                raise ValueError("defect")
            super().set()

    async with watching(Instant()) as watcher:
        with watcher.watch(str(tmp_path)) as changed:
            for waiting in watcher._waiting.values():
                broken = BrokenEvent()
                waiting.add(broken)
            (tmp_path / "x").touch()
            await until(lambda: broken.raised)
            changed.clear()
            (tmp_path / "y").touch()
            assert await fires(changed)


class Instant(SystemClock):
    """A clock that does not wait."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)

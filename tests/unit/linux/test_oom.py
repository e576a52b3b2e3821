"""OOM kills of a cgroup."""

import errno
import os
import select
import shutil
import time
from pathlib import Path

import pytest

from pykubelet.linux.cgroups import Layout, Mode
from pykubelet.linux.cgroups.oom import OomCounter, OomWatch
from pykubelet.testing.wait import until


@pytest.mark.parametrize(
    ("mode", "file", "text"),
    [
        (Mode.V1, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
        (Mode.V2, "memory.events", "low 0\nhigh 0\nmax 9\noom 1\noom_kill 3\n"),
    ],
)
def test_oom_kills_are_counted_on_both_cgroup_versions(tmp_path: Path, mode: Mode, file: str, text: str) -> None:
    layout = Layout(mode, tmp_path if mode is Mode.V2 else None, {} if mode is Mode.V2 else {"memory": tmp_path})
    (tmp_path / "pod").mkdir()
    (tmp_path / "pod" / file).write_text(text)
    counter = OomCounter(layout)
    assert counter.kills("/pod") == 3
    assert counter.kills("/gone") == 0


def test_a_machine_without_cgroups() -> None:
    assert OomCounter(Layout(Mode.NONE)).kills("/pod") == 0


class _Epoll:
    """An epoll set that tells a change of the only file when the test does."""

    def __init__(self) -> None:
        self._ready, self._reported = os.pipe()
        self.files: list[int] = []
        self.polls = 0
        self.closed = False

    def fileno(self) -> int:
        return self._ready

    def register(self, fd: int, events: int) -> None:
        assert events == select.EPOLLPRI | select.EPOLLET
        self.files.append(fd)

    def unregister(self, fd: int) -> None:
        self.files.remove(fd)

    def poll(self, timeout: float) -> list[tuple[int, int]]:
        assert timeout == 0
        os.read(self._ready, 1)
        self.polls += 1
        return [(fd, select.EPOLLPRI) for fd in self.files]

    def tell(self) -> None:
        os.write(self._reported, b"!")

    def close(self) -> None:
        if not self.closed:
            os.close(self._ready)
            os.close(self._reported)
        self.closed = True


async def test_kill_in_a_watched_cgroup_is_known_when_the_cgroup_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    epoll = _Epoll()
    monkeypatch.setattr(select, "epoll", lambda: epoll)
    file = tmp_path / "pod/main.scope/memory.events"
    file.parent.mkdir(parents=True)
    file.write_text("max 0\noom_kill 0\n")
    watch = OomWatch(OomCounter(Layout(Mode.V2, tmp_path, {})))
    watch.follow("/pod/main.scope")
    watch.follow("/pod/missing.scope")
    file.write_text("max 9\noom_kill 0\n")
    epoll.tell()
    await until(lambda: epoll.polls)
    assert watch.kills("/pod/main.scope") == 0 and len(epoll.files) == 1, "a change that is no kill ends nothing"
    file.write_text("max 9\noom_kill 2\n")
    epoll.tell()
    await until(lambda: watch.kills("/pod/main.scope"))
    shutil.rmtree(file.parent)
    assert (watch.kills("/pod/main.scope"), watch.kills("/pod/missing.scope"), epoll.files) == (2, 0, [])
    watch.forget("/pod/main.scope")
    watch.forget("/pod/main.scope")
    assert watch.kills("/pod/main.scope") == 0
    watch.close()
    watch.close()


async def test_kill_before_the_watch_began_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "epoll", _Epoll)
    (tmp_path / "memory.events").write_text("oom_kill 1\n")
    watch = OomWatch(OomCounter(Layout(Mode.V2, tmp_path, {})))
    watch.follow("/")
    assert watch.kills("/") == 1
    watch.close()


async def test_cgroup_that_changes_all_the_time_is_looked_at_twenty_times_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    epoll = _Epoll()
    monkeypatch.setattr(select, "epoll", lambda: epoll)
    (tmp_path / "memory.events").write_text("oom_kill 0\n")
    watch = OomWatch(OomCounter(Layout(Mode.V2, tmp_path, {})))
    watch.follow("/")
    (tmp_path / "another").mkdir()
    (tmp_path / "another/memory.events").write_text("oom_kill 0\n")
    begun = time.monotonic()
    for _ in range(100):
        epoll.tell()

    def started() -> bool:
        watch.follow("/another")  # as a container that is restarted all the time
        watch.forget("/another")
        return epoll.polls >= 5

    await until(started)
    assert time.monotonic() - begun >= 4 * 0.05
    watch.close()


async def test_container_is_followed_though_its_counts_cannot_be_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Containers share root's watches, fs.epoll.max_user_watches; what is known at the begin counts all the same."""

    class FullEpoll(_Epoll):
        def register(self, fd: int, events: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        def unregister(self, fd: int) -> None:
            raise FileNotFoundError

    monkeypatch.setattr(select, "epoll", FullEpoll)
    (tmp_path / "memory.events").write_text("oom_kill 1\n")
    watch = OomWatch(OomCounter(Layout(Mode.V2, tmp_path, {})))
    watch.follow("/")
    assert watch.kills("/") == 1
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "memory.events").write_text("oom_kill 0\n")
        watch.follow(f"/{name}")
    assert len(caplog.records) == 1, "one warning, not one for each container"
    watch.close()

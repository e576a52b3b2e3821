"""Logs of shims themselves: a large one is emptied, its end is kept, and one that cannot be read keeps no other."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from pykubelet.criserver.shim import shim_log_files
from pykubelet.criserver.shim.shim_log_files import CHECK_SECONDS, KEPT, LARGEST, ShimLogFiles
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.wait import until


def _logs(root: Path, clock: VirtualClock | None = None) -> ShimLogFiles:
    return ShimLogFiles(lambda: [root / "shim"], clock or VirtualClock())


def _task(root: Path, name: str, size: int) -> Path:
    task = root / "shim" / name
    task.mkdir(parents=True)
    (task / "log").write_bytes(b"x" * size + b"end\n")
    return task


async def test_large_log_is_emptied_while_the_shim_writes_on(tmp_path: Path) -> None:
    small, large = _task(tmp_path, "small", 1000), _task(tmp_path, "large", LARGEST)
    logs = _logs(tmp_path)
    with (large / "log").open("r+b") as shim:
        shim.seek(0, os.SEEK_END)
        await logs.check()
        shim.write(b"later\n")
    assert (small / "log").stat().st_size == 1004
    assert not (small / "log.previous").exists()
    assert (large / "log").stat().st_blocks * 512 < LARGEST // 4
    assert (large / "log").read_bytes().lstrip(b"\0") == b"later\n"
    end = (large / "log.previous").read_bytes()
    assert (len(end), end[-5:]) == (KEPT, b"xend\n")


async def test_log_that_cannot_be_read_keeps_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shim/a").mkdir(parents=True)
    os.mkfifo(tmp_path / "shim/a/log")
    (tmp_path / "shim/b").mkdir()
    (tmp_path / "shim/b/log").symlink_to("/dev/zero")
    large = _task(tmp_path, "c", LARGEST)
    # They were large when they were found, and were replaced since.
    found = [tmp_path / "shim" / name for name in ("a", "b", "gone", "c")]
    monkeypatch.setattr(ShimLogFiles, "_found", lambda self, handlers: found)
    await _logs(tmp_path).check()
    assert (large / "log").stat().st_size == 0


async def test_only_large_logs_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _task(tmp_path, "small", 1000)
    (tmp_path / "shim/new").mkdir()
    (tmp_path / "shim/file").touch()
    large = _task(tmp_path, "large", LARGEST)
    opened: list[Path] = []

    def emptied(task: Path) -> bool:
        opened.append(task)
        return True

    monkeypatch.setattr(shim_log_files, "emptied", emptied)
    await _logs(tmp_path).check()
    assert opened == [large]


async def test_server_without_shims_looks_for_no_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(ShimLogFiles, "_found")
    await ShimLogFiles(list, VirtualClock()).check()


async def test_directory_of_a_handler_that_has_not_run_a_task_yet_has_no_logs(tmp_path: Path) -> None:
    await _logs(tmp_path).check()


async def test_round_that_raises_is_followed_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, large = VirtualClock(), _task(tmp_path, "c", LARGEST)
    rounds = 0
    listed = ShimLogFiles._found

    def found(self: ShimLogFiles, handlers: Sequence[Path]) -> list[Path]:
        nonlocal rounds
        rounds += 1
        if rounds == 1:
            raise OSError("no memory")
        return listed(self, handlers)

    monkeypatch.setattr(ShimLogFiles, "_found", found)
    running = asyncio.ensure_future(_logs(tmp_path, clock).run())
    try:
        for _ in range(2):
            await clock.advance(CHECK_SECONDS)
        await until(lambda: (large / "log").stat().st_size == 0)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

"""File operations of log rotation in directories that a pod has changed through a writable hostPath."""

import gzip
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pykubelet.base.units import Bytes
from pykubelet.kubelet.actuate.logs import log_files
from pykubelet.kubelet.actuate.logs.log_types import LogPlace, RotationConfig
from pykubelet.kubelet.types.ids import PodUID

POD = "default_web_u1"
OLD = "0.log.20260102-030405"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def place(tmp_path: Path) -> LogPlace:
    (tmp_path / "pods" / POD / "app").mkdir(parents=True)
    return LogPlace(tmp_path / "pods", POD, PodUID("u1"), "app", 0)


def _directory(place: LogPlace) -> Path:
    return place.root / place.pod / place.container


@pytest.fixture
def shadow(tmp_path: Path) -> Path:
    """A file of the node that only root may read."""
    path = tmp_path / "shadow"
    path.write_text("root:secret")
    path.chmod(0o600)
    return path


def _assert_untouched(shadow: Path) -> None:
    assert shadow.read_text() == "root:secret"
    assert shadow.stat().st_mode & 0o777 == 0o600
    assert shadow.stat().st_nlink == 1


def test_rotated_log_that_is_a_link_is_removed_and_not_read(place: LogPlace, shadow: Path) -> None:
    (_directory(place) / OLD).symlink_to(shadow)
    log_files.tidy(place, 5)
    assert list(_directory(place).iterdir()) == []
    _assert_untouched(shadow)


def test_rotated_log_that_is_a_fifo_is_removed_and_never_opened(place: LogPlace) -> None:
    os.mkfifo(_directory(place) / OLD)
    log_files.tidy(place, 5)
    assert list(_directory(place).iterdir()) == []


def test_directory_with_the_name_of_a_rotated_log_is_left_alone(place: LogPlace) -> None:
    (_directory(place) / OLD).mkdir()
    (_directory(place) / f"{OLD}1").write_text("no log of ours")
    log_files.tidy(place, 2)
    assert sorted(path.name for path in _directory(place).iterdir()) == [OLD, f"{OLD}1"]


def test_compressed_log_is_not_written_through_a_link(place: LogPlace, shadow: Path) -> None:
    (_directory(place) / OLD).write_text("content")
    (_directory(place) / f"{OLD}.tmp").symlink_to(shadow)
    log_files.tidy(place, 5)
    packed = _directory(place) / f"{OLD}.gz"
    assert gzip.decompress(packed.read_bytes()) == b"content"
    assert [path.name for path in _directory(place).iterdir()] == [packed.name]
    _assert_untouched(shadow)


@pytest.mark.parametrize(("before", "after"), [(0o600, 0o600), (0o640, 0o640), (0o4755, 0o644), (0o777, 0o666)])
def test_compressed_log_keeps_who_may_read_and_loses_the_rest(place: LogPlace, before: int, after: int) -> None:
    log = _directory(place) / OLD
    log.write_text("content")
    log.chmod(before)
    log_files.tidy(place, 5)
    assert (_directory(place) / f"{OLD}.gz").stat().st_mode & 0o7777 == after


def test_huge_hole_is_given_up(place: LogPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    log = _directory(place) / OLD
    log.touch()
    os.truncate(log, 1 << 40)
    monkeypatch.setattr(log_files, "_COMPRESS_SECONDS", 0.05)
    with pytest.raises(TimeoutError, match="took longer"):
        log_files.tidy(place, 5)
    assert [path.name for path in _directory(place).iterdir()] == [OLD]


@pytest.mark.parametrize(
    "use", [lambda p: log_files.tidy(p, 5), lambda p: log_files.put_aside(p, NOW), lambda p: log_files.put_back(p, OLD)]
)
def test_directory_that_has_become_a_link_is_refused(
    place: LogPlace, tmp_path: Path, use: Callable[[LogPlace], object]
) -> None:
    elsewhere = tmp_path / "elsewhere"
    _directory(place).rename(elsewhere)
    _directory(place).symlink_to(elsewhere)
    for name in ("0.log", OLD):
        (elsewhere / name).touch()
    with pytest.raises(NotADirectoryError):
        use(place)
    assert sorted(path.name for path in elsewhere.iterdir()) == ["0.log", OLD]


def test_log_that_is_a_link_gets_no_other_name(place: LogPlace, shadow: Path) -> None:
    """Between the look and the rotation: the link is renamed, its target is not, and a look passes it over."""
    (_directory(place) / "0.log").symlink_to(shadow)
    assert log_files.overgrown(RotationConfig(place.root, Bytes(1)), POD) == ([], {})
    rotated = log_files.put_aside(place, NOW)
    assert rotated == OLD
    log_files.put_back(place, rotated)
    assert (_directory(place) / "0.log").is_symlink()
    _assert_untouched(shadow)


def test_million_strange_names_are_not_collected(place: LogPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "_MOST_NAMES", 10)
    for number in range(50):
        (_directory(place) / f"{number}.log").write_text("x" * 10)
    (places, failed) = log_files.overgrown(RotationConfig(place.root, Bytes(1)), POD)
    assert len(places) == 1
    assert failed == {}

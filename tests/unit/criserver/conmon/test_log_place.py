"""The places of a log and of the next one, in a directory where a pod may write."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pykubelet.base.errors import Conflict, Invalid, NotFound
from pykubelet.criserver.conmon import clear_log_place, make_next_log

_TRAPS: dict[str, Callable[[Path, Path], None]] = {
    "link": lambda place, target: place.symlink_to(target),
    "dangling link": lambda place, target: place.symlink_to(target.with_name("missing")),
    "link to a directory": lambda place, target: place.symlink_to(target.parent),
    "hard link": lambda place, target: place.hardlink_to(target),
    "fifo": lambda place, _: os.mkfifo(place),
    "directory": lambda place, _: place.mkdir(),
}


@pytest.fixture(name="log")
def _log(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs" / "0.log"


@pytest.mark.parametrize("kind", _TRAPS)
@pytest.mark.parametrize("suffix", ["", ".tmp"])
def test_next_log_is_a_file_of_its_own_whatever_is_in_its_place(
    log: Path, tmp_path: Path, kind: str, suffix: str
) -> None:
    target = tmp_path / "target"
    target.write_text("of the node")
    _TRAPS[kind](log.with_name(log.name + suffix), target)
    made = make_next_log(log)
    following = log.with_name("0.log.tmp")
    with following.open("w") as opened:  # as conmon does
        following.rename(log)
        opened.write("a line")
    assert made.is_in_place()
    assert log.read_text() == "a line" and not log.is_symlink()
    assert target.read_text() == "of the node"
    assert os.listdir(log.parent) == ["0.log"]  # noqa: PTH208 - only names
    assert not (tmp_path / "missing").exists()


def test_log_is_awaited_until_conmon_has_opened_it(log: Path) -> None:
    log.write_text("before")
    made = make_next_log(log)
    assert log.read_text() == "before" and not made.is_in_place()
    log.with_name("0.log.tmp").rename(log)
    assert made.is_in_place()


def test_log_that_conmon_created_itself_is_in_place(log: Path) -> None:
    made = make_next_log(log)
    log.with_name("0.log.tmp").unlink()
    log.touch()
    assert made.is_in_place()


def test_log_that_is_replaced_after_it_was_created_is_a_conflict(log: Path, tmp_path: Path) -> None:
    made = make_next_log(log)
    (tmp_path / "target").touch()
    log.with_name("0.log.tmp").unlink()
    with pytest.raises(Conflict, match="log was replaced"):
        made.is_in_place()
    for kind in ("link", "hard link"):
        _TRAPS[kind](log, tmp_path / "target")
        with pytest.raises(Conflict, match="log was replaced"):
            made.is_in_place()
        log.unlink()


def test_next_log_that_conmon_will_not_open_is_removed_unless_it_is_of_others(log: Path) -> None:
    made = make_next_log(log)
    made.drop()
    assert not log.with_name("0.log.tmp").exists()
    log.with_name("0.log.tmp").mkdir()
    made.drop()
    assert log.with_name("0.log.tmp").is_dir()


def test_log_without_a_directory_or_with_a_name_that_is_too_long_is_not_reopened(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="cannot be rotated"):
        make_next_log(tmp_path / "missing" / "0.log")
    for name in ("l" * 252, "é" * 126):
        clear_log_place(tmp_path / name)
        with pytest.raises(Invalid, match="its name may have at most 251 bytes"):
            make_next_log(tmp_path / name)
    make_next_log(tmp_path / ("l" * 251))

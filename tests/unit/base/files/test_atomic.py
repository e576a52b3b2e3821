"""Atomic replacement of files."""

import os
import stat
from pathlib import Path

import pytest

from pykubelet.base.files.atomic import remove_temporary_files, write_atomic


@pytest.mark.parametrize("durable", [False, True])
def test_writes_and_replaces_with_the_mode(tmp_path: Path, durable: bool) -> None:
    target = tmp_path / "state"
    old_mask = os.umask(0o077)
    try:
        write_atomic(target, b"one", mode=0o644, durable=durable)
        write_atomic(str(target), b"two", mode=0o640, durable=durable)
    finally:
        os.umask(old_mask)
    assert target.read_bytes() == b"two"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert [entry.name for entry in tmp_path.iterdir()] == ["state"]


@pytest.mark.parametrize("name", ["a" * 255, "ü" * 127])
def test_longest_name_of_a_file_is_written(name: str, tmp_path: Path) -> None:
    write_atomic(tmp_path / name, b"new")
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_default_mode_is_private(tmp_path: Path) -> None:
    write_atomic(tmp_path / "secret", b"")
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600


def test_replaces_a_link_and_not_its_target(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    link = tmp_path / "link"
    link.symlink_to(victim)
    write_atomic(link, b"new")
    assert not link.is_symlink()
    assert victim.read_text() == "untouched"


def test_a_failure_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    target = tmp_path / "directory"
    target.mkdir()
    (target / "child").touch()
    with pytest.raises(OSError, match="directory"):
        write_atomic(target, b"data")
    assert [entry.name for entry in tmp_path.iterdir()] == ["directory"]


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomic(tmp_path / "no" / "file", b"data")


def test_temporary_files_of_a_killed_writer_are_removed(tmp_path: Path) -> None:
    for name in (".state.json.0123456789ab.tmp", "state.json", ".hidden", ".other.tmp", "x.0123456789ab.tmp"):
        (tmp_path / name).touch()
    remove_temporary_files(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"state.json", ".hidden", ".other.tmp", "x.0123456789ab.tmp"}
    remove_temporary_files(tmp_path / "missing")

"""The agent's own files: read within bounds, or set aside and listed."""

import errno
import os
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.base.files import retried_reads, state_files
from pykubelet.base.files.retried_reads import RetriedReads
from pykubelet.base.files.state_files import clear_path, damaged_files, read_state_file, set_aside


def _listed(path: Path) -> tuple[str, str]:
    (found,) = [each for each in damaged_files() if each.path == str(path)]
    return found.error, found.kept_as


def test_file_that_is_well_is_parsed_and_missing_one_reported(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with pytest.raises(FileNotFoundError):
        read_state_file(path, 10, int)
    path.write_bytes(b"12")
    assert read_state_file(path, 10, int) == 12


def test_file_that_cannot_be_parsed_is_set_aside_and_listed(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for number in (1, 2):
        path.write_bytes(b"x")
        with pytest.raises(Invalid, match=rf"a is damaged, it is kept as .*a\.aside-{number}: invalid literal"):
            read_state_file(path, 10, int)
        assert (tmp_path / f"a.aside-{number}").read_bytes() == b"x"
    assert _listed(path)[1] == str(tmp_path / "a.aside-2")


def test_directory_is_moved_out_of_the_place_of_a_file_and_files_are_not(tmp_path: Path) -> None:
    path = tmp_path / "a"
    clear_path(path)
    path.mkdir()
    clear_path(path)
    assert (tmp_path / "a.aside-1").is_dir()
    path.write_bytes(b"1")
    clear_path(path)
    assert path.read_bytes() == b"1"


def test_file_that_cannot_be_renamed_stays_and_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x")

    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refuse)
        with pytest.raises(Invalid, match="is damaged and cannot be renamed"):
            read_state_file(path, 10, int)
    assert path.read_bytes() == b"x"
    assert _listed(path) == (
        "invalid literal for int() with base 10: b'x'; it cannot be renamed: Operation not permitted",
        "",
    )


def test_file_that_cannot_be_read_now_stays_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"

    def fail(path: Path, limit: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    path.write_bytes(b"1")
    with monkeypatch.context() as patch:
        patch.setattr(state_files, "read_regular", fail)
        with pytest.raises(OSError, match="Input/output error"):
            read_state_file(path, 10, int)
    assert "Input/output error" in _listed(path)[0]
    assert read_state_file(path, 10, int) == 1


def test_file_that_cannot_be_read_for_a_moment_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, pauses, numbers = tmp_path / "momentary", list[float](), [errno.EMFILE, errno.EIO]

    def fail(path: Path, limit: int) -> bytes:
        if numbers:
            raise OSError(number := numbers.pop(), os.strerror(number), str(path))
        return path.read_bytes()

    path.write_bytes(b"1")
    monkeypatch.setattr(state_files, "read_regular", fail)
    monkeypatch.setattr(retried_reads, "_shared", RetriedReads(lambda: sum(pauses), pauses.append))
    assert read_state_file(path, 10, int) == 1
    assert len(pauses) == 2
    assert str(path) not in [each.path for each in damaged_files()]


def test_files_set_aside_and_those_listed_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_files, "_MOST_ASIDE", 3)
    monkeypatch.setattr(state_files, "_MOST_LISTED", 4)
    path = tmp_path / "a"
    for _ in range(2):
        path.write_bytes(b"x")
        set_aside(path)
    path.write_bytes(b"x")
    with pytest.raises(FileExistsError):
        set_aside(path)
    for number in range(9):
        path = tmp_path / f"b{number}"
        path.write_bytes(b"x")
        with pytest.raises(Invalid):
            read_state_file(path, 10, int)
    assert [Path(each.path).name for each in damaged_files()] == ["b5", "b6", "b7", "b8"]

"""The server's own directories."""

import os
from pathlib import Path

import pytest

from pykubelet.base.errors import Conflict, Permanent
from pykubelet.criserver.directories import find_untraversable, lock_directory, make_directory, make_traversable


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_one_server_holds_a_directory(tmp_path: Path) -> None:
    held = lock_directory(tmp_path)
    try:
        with pytest.raises(Conflict, match="another criserver"):
            lock_directory(tmp_path)
    finally:
        os.close(held)
    os.close(lock_directory(tmp_path))


def test_a_way_is_made_and_what_lies_beside_it_is_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    top = tmp_path / "root"
    before = os.umask(0o077)
    try:
        make_traversable(top, top / "storage" / "containers")
        make_directory(top / "secret" / "more")
    finally:
        os.umask(before)
    assert [_mode(top / part) for part in ("", "storage", "storage/containers")] == [0o711] * 3
    assert [_mode(top / part) for part in ("secret", "secret/more")] == [0o700] * 2


@pytest.mark.parametrize("mode", [0o700, 0o710, 0o711, 0o755])
def test_a_directory_that_is_there_is_left_as_it_is(tmp_path: Path, mode: int) -> None:
    top = tmp_path / "root"
    top.mkdir()
    top.chmod(mode)
    for _ in range(2):
        make_traversable(top, top / "last")
    assert (_mode(top), _mode(top / "last")) == (mode, 0o711)
    if not mode & 1:
        assert find_untraversable(top / "last") == top


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o702])
def test_a_directory_that_others_can_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    top = tmp_path / "root"
    top.mkdir()
    top.chmod(mode)
    with pytest.raises(Permanent, match="can be written by others"):
        make_traversable(top, top / "last")
    assert _mode(top) == mode & 0o777
    assert not (top / "last").exists()


def test_a_closed_directory_above_is_told_and_left_alone(tmp_path: Path) -> None:
    above = tmp_path / "above"
    make_directory(above)
    make_traversable(above / "root", above / "root")
    assert find_untraversable(above / "root") == above
    assert _mode(above) == 0o700
    assert find_untraversable(Path("/")) is None

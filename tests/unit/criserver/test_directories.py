"""The server's own directories."""

import os
from pathlib import Path

import pytest

from pykubelet.base.errors import Conflict, Permanent
from pykubelet.criserver.directories import find_untraversable, lock_directory, make_directory, make_traversable


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_directory_is_locked_by_one_server(tmp_path: Path) -> None:
    held = lock_directory(tmp_path)
    try:
        with pytest.raises(Conflict, match="another criserver"):
            lock_directory(tmp_path)
    finally:
        os.close(held)
    os.close(lock_directory(tmp_path))


def test_traversable_path_is_created_and_siblings_are_private(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    top = tmp_path / "above" / "it" / "root"
    before = os.umask(0o077)
    try:
        make_traversable(top, top / "storage" / "containers")
        make_directory(top / "secret" / "more")
    finally:
        os.umask(before)
    assert [_mode(top / part) for part in ("../..", "..", "", "storage", "storage/containers")] == [0o711] * 5
    assert [_mode(top / part) for part in ("secret", "secret/more")] == [0o700] * 2


@pytest.mark.parametrize("mode", [0o700, 0o710, 0o711, 0o755])
def test_existing_directory_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    top = tmp_path / "root"
    top.mkdir()
    top.chmod(mode)
    for _ in range(2):
        make_traversable(top, top / "last")
    assert (_mode(top), _mode(top / "last")) == (mode, 0o711)
    if not mode & 1:
        assert find_untraversable(top / "last") == top


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o702])
def test_directory_writable_by_others_is_rejected(tmp_path: Path, mode: int) -> None:
    top = tmp_path / "root"
    top.mkdir()
    top.chmod(mode)
    with pytest.raises(Permanent, match="can be written by others"):
        make_traversable(top, top / "last")
    assert _mode(top) == mode & 0o777
    assert not (top / "last").exists()


def test_untraversable_parent_is_found_and_unchanged(tmp_path: Path) -> None:
    above = tmp_path / "above"
    make_directory(above)
    make_traversable(above / "root", above / "root")
    assert find_untraversable(above / "root") == above
    assert _mode(above) == 0o700
    assert find_untraversable(Path("/")) is None

"""The server's own folders."""

import os
from pathlib import Path

import pytest

from pykubelet.base.errors import Conflict
from pykubelet.criserver.folders import lock_folder, make_folder, open_way


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_one_server_holds_a_folder(tmp_path: Path) -> None:
    held = lock_folder(tmp_path)
    try:
        with pytest.raises(Conflict, match="another criserver"):
            lock_folder(tmp_path)
    finally:
        os.close(held)
    os.close(lock_folder(tmp_path))


def test_a_way_is_opened_and_what_lies_beside_it_stays_closed(tmp_path: Path) -> None:
    top = tmp_path / "root"
    make_folder(top / "secret")
    top.chmod(0o700)
    open_way((top, top / "storage" / "containers"))
    assert [_mode(top / part) for part in ("", "storage", "storage/containers")] == [0o711] * 3
    assert _mode(top / "secret") == 0o700


def test_a_closed_folder_above_is_told_and_left_alone(tmp_path: Path) -> None:
    above = tmp_path / "above"
    make_folder(above)
    assert not open_way((above / "root", above / "root"))
    assert _mode(above) == 0o700

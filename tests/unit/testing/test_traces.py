"""The leftovers of a killed session are removed, however deep the directories are that its containers have made."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from pykubelet.testing import isolation
from pykubelet.testing.deep_directories import make_deep
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.leakcheck import Kind, Scope, snapshot
from pykubelet.testing.traces import remove_files

_DEPTH = 2100
"""More than Python may recurse, and a path longer than the kernel takes."""


def test_files_of_any_depth_are_removed_and_what_they_link_to_stays(tmp_path: Path) -> None:
    outside, home = tmp_path / "outside", tmp_path / "home"
    for directory in (outside, home):
        directory.mkdir()
    (outside / "kept").touch()
    (home / "link").symlink_to(outside)
    make_deep(home, _DEPTH)
    remove_files(home)
    assert not home.exists() and (outside / "kept").exists()


def test_files_that_do_not_exist_are_no_error(tmp_path: Path) -> None:
    remove_files(tmp_path / "missing" / "home")


def test_session_starts_after_one_that_was_killed_beside_a_deep_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "_BASE", tmp_path)
    dead = Isolation("dead", "10.200.9.0/24", os.getpid(), 1)
    dead.home.mkdir()
    (dead.home / "owner.json").write_text(json.dumps(asdict(dead)))
    make_deep(dead.home, _DEPTH)
    mine = isolation.claim()
    try:
        assert not dead.home.exists()
    finally:
        mine.destroy()
    assert not mine.home.exists()


def test_deep_directory_is_counted(tmp_path: Path) -> None:
    scope = Scope(directories=(str(tmp_path),))
    make_deep(tmp_path, _DEPTH)
    try:
        (tmp_path / "shallow").touch()
        assert f"{tmp_path}/shallow" in snapshot(scope).found[Kind.FILE]
    finally:
        remove_files(tmp_path)

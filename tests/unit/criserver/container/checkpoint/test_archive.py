"""The files of a checkpoint: the changed files as a layer, and the archive."""

import os
import stat
import tarfile
from pathlib import Path

import pytest

from pykubelet.base.errors import PykubeletError, Transient
from pykubelet.criserver.container.checkpoint import archive
from pykubelet.criserver.container.checkpoint.archive import copy_log, write_archive


def members(path: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(path) as tar:
        return {member.name: member for member in tar.getmembers()}


def test_archive_has_all_files_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    directory = tmp_path / "files"
    (directory / "checkpoint").mkdir(parents=True)
    (directory / "checkpoint" / "core-1.img").write_bytes(b"core")
    (directory / "config.dump").write_text("{}")
    location = tmp_path / "archive.tar"
    location.write_text("an earlier one")
    write_archive(directory, location)
    assert set(members(location)) == {"checkpoint", "checkpoint/core-1.img", "config.dump"}
    assert stat.S_IMODE(location.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".partial")] == []


def test_archive_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    with pytest.raises(PykubeletError, match=r"cannot write the checkpoint archive .*none/archive\.tar"):
        write_archive(tmp_path / "files", tmp_path / "none" / "archive.tar")
    (tmp_path / "there").mkdir()
    with pytest.raises(PykubeletError, match="cannot write the checkpoint archive"):
        write_archive(tmp_path / "files", tmp_path / "there")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files", "there"]


def test_partial_archive_of_another_user_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "pages-1.img").write_text("secret")
    theirs = tmp_path / "archive.tar.partial"
    theirs.touch()
    theirs.chmod(0o666)
    with theirs.open() as reader:
        write_archive(tmp_path / "files", tmp_path / "archive.tar")
        assert reader.read() == ""
    assert stat.S_IMODE((tmp_path / "archive.tar").stat().st_mode) == 0o600


def test_archive_does_not_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "pages-1.img").write_text("content")
    monkeypatch.setattr(archive, "RESERVED", 1.0)
    with pytest.raises(Transient, match="no room for 7 bytes"):
        write_archive(tmp_path / "files", tmp_path / "archive.tar")
    assert [path.name for path in tmp_path.iterdir()] == ["files"]


def test_last_lines_of_a_log_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "0.log"
    copy_log(log, tmp_path / "missing")
    assert not (tmp_path / "missing").exists()
    log.write_text("first\nsecond\nthird\n")
    copy_log(log, tmp_path / "all")
    assert (tmp_path / "all").read_text() == "first\nsecond\nthird\n"
    monkeypatch.setattr(archive, "MAX_LOG", 10)
    copy_log(log, tmp_path / "last")
    assert (tmp_path / "last").read_text() == "third\n"
    with pytest.raises(PykubeletError, match="cannot copy the log"):
        copy_log(log, tmp_path / "last")
    os.mkfifo(tmp_path / "fifo")
    copy_log(tmp_path / "fifo", tmp_path / "none")
    assert not (tmp_path / "none").exists()

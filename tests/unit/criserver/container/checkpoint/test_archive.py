"""The files of a checkpoint: the changed files as a layer, and the archive."""

import os
import stat
import tarfile
from pathlib import Path

import pytest

from pykubelet.base.errors import PykubeletError
from pykubelet.criserver.container.checkpoint import archive
from pykubelet.criserver.container.checkpoint.archive import copy_log, write_archive, write_diff


def members(path: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(path) as tar:
        return {member.name: member for member in tar.getmembers()}


@pytest.mark.root
def test_changed_files_are_a_layer_with_whiteouts(tmp_path: Path) -> None:
    upper = tmp_path / "upper"
    (upper / "new" / "empty").mkdir(parents=True)
    (upper / "new" / "file").write_text("content")
    os.chown(upper / "new" / "file", 12, 34)
    (upper / "new" / "file").chmod(0o4750)
    os.setxattr(upper / "new" / "file", "user.mark", b"\xff1")
    os.setxattr(upper / "new", "trusted.overlay.opaque", b"y")
    os.mknod(upper / "gone", stat.S_IFCHR, os.makedev(0, 0))
    os.mknod(upper / "new" / "gone", stat.S_IFCHR, os.makedev(0, 0))
    os.mknod(upper / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mkfifo(upper / "fifo")
    (upper / "link").symlink_to("/etc")
    os.mknod(upper / "socket", stat.S_IFSOCK)
    write_diff(upper, tmp_path / "diff.tar")
    found = members(tmp_path / "diff.tar")
    assert set(found) == {
        *("new", "new/.wh..wh..opq", "new/empty", "new/file", "new/.wh.gone", ".wh.gone"),
        *("null", "fifo", "link"),
    }
    file = found["new/file"]
    assert (file.mode, file.uid, file.gid, file.size) == (0o4750, 12, 34, 7)
    assert file.pax_headers["SCHILY.xattr.user.mark"].encode(errors="surrogateescape") == b"\xff1"
    assert found["null"].ischr() and (found["null"].devmajor, found["null"].devminor) == (1, 3)
    assert found["link"].issym() and found["link"].linkname == "/etc"
    assert found[".wh.gone"].isreg() and found[".wh.gone"].size == 0


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

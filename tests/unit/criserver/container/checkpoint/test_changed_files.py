"""Changes of a container to its files, as a layer; the container may have made them to do harm."""

import os
import stat
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid, PykubeletError, Transient, Unsupported
from pykubelet.criserver.container.checkpoint import archive, changed_files
from pykubelet.criserver.container.checkpoint.changed_files import write_diff
from pykubelet.criserver.storage.remove import remove_tree
from pykubelet.criserver.storage.unpacking import unpack_archive
from pykubelet.criserver.unpack.limits import Limits


def members(path: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(path) as tar:
        return {member.name: member for member in tar.getmembers()}


def deep(directory: Path, levels: int) -> Path:
    """Make directories one below the other."""
    directory.mkdir()
    fd = os.open(directory, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    return directory


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


@pytest.mark.root
async def test_layer_makes_the_same_files_again(tmp_path: Path) -> None:
    upper = tmp_path / "upper"
    (upper / "d").mkdir(parents=True)
    (upper / "d" / "file").write_text("content")
    os.link(upper / "d" / "file", upper / "name")
    os.setxattr(upper / "d" / "file", "user.mark", b"\xff1")
    (upper / os.fsdecode(b"\xff\n")).write_text("odd")
    with (upper / "holes").open("wb") as file:
        file.write(b"begin")
        file.seek(1 << 30)
        file.write(b"middle")
        file.truncate(2 << 30)
    with (upper / "hole").open("wb") as file:
        file.truncate(64 << 30)
    write_diff(upper, tmp_path / "diff.tar")
    assert (tmp_path / "diff.tar").stat().st_size < 1 << 20
    made = tmp_path / "made"
    made.mkdir()
    with (tmp_path / "diff.tar").open("rb") as tar:
        await unpack_archive(tar.fileno(), "it", made, merged=True, limits=Limits())
    assert (made / "name").samefile(made / "d" / "file") and os.getxattr(made / "name", "user.mark") == b"\xff1"
    assert (made / os.fsdecode(b"\xff\n")).read_text() == "odd"
    assert (made / "hole").stat().st_size == 64 << 30
    with (made / "holes").open("rb") as file:
        assert file.read(8) == b"begin\0\0\0"
        file.seek(1 << 30)
        assert file.read(8) == b"middle\0\0"
    assert (made / "holes").stat().st_size == 2 << 30 and (made / "holes").stat().st_blocks < 1000


def test_trees_that_are_too_deep_are_refused(tmp_path: Path) -> None:
    write_diff(deep(tmp_path / "a", 500), tmp_path / "diff.tar")
    assert len(members(tmp_path / "diff.tar")) == 500
    with pytest.raises(Invalid, match="deeper than 512 levels"):
        write_diff(deep(tmp_path / "b", 1500), tmp_path / "diff.tar")
    for name in ("a", "b"):
        remove_tree(str(tmp_path / name))  # pytest cannot


@pytest.mark.parametrize(("limit", "words"), [("MAX_FILES", "more than 3 files"), ("MAX_LINKED", "with hard links")])
def test_numbers_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, words: str) -> None:
    upper = tmp_path / "upper"
    upper.mkdir()
    for number in range(4):
        (upper / str(number)).touch()
        os.link(upper / str(number), upper / f"{number}-too")
    monkeypatch.setattr(changed_files, limit, 3)
    with pytest.raises(Invalid, match=words):
        write_diff(upper, tmp_path / "diff.tar")


def test_memory_for_names_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a directory that is read, and the first ones of files with hard links."""
    many, linked = tmp_path / "many", tmp_path / "linked"
    for number in range(20):
        (many / f"{number}").mkdir(parents=True)
        (many / f"{number}" / ("n" * 200)).touch()
        (linked / f"{number}").mkdir(parents=True)
        (linked / f"{number}" / ("n" * 200)).touch()
        os.link(linked / f"{number}" / ("n" * 200), linked / f"{number}" / "other")
    monkeypatch.setattr(changed_files, "MAX_MEMORY", 3000)
    write_diff(many, tmp_path / "many.tar")
    with pytest.raises(Invalid, match="take more than 3000 bytes"):
        write_diff(linked, tmp_path / "linked.tar")
    monkeypatch.setattr(changed_files, "MAX_MEMORY", 1000)
    with pytest.raises(Invalid, match="take more than 1000 bytes"):
        write_diff(many, tmp_path / "many.tar")


@pytest.mark.root
async def test_paths_are_as_long_as_those_of_a_layer(tmp_path: Path) -> None:
    upper, names = tmp_path / "upper", ["d" * 255] * 15
    upper.mkdir()
    _make_file(upper, names, "f" * 254)
    (tmp_path / "made").mkdir()
    try:
        write_diff(upper, tmp_path / "diff.tar")
        with (tmp_path / "diff.tar").open("rb") as tar:
            await unpack_archive(tar.fileno(), "it", tmp_path / "made", merged=True, limits=Limits())
        _make_file(upper, names, "f" * 255)
        with pytest.raises(Invalid, match="path is longer than 4094 bytes"):
            write_diff(upper, tmp_path / "diff.tar")
    finally:
        for place in (upper, tmp_path / "made"):
            remove_tree(str(place))  # pytest cannot


def _make_file(top: Path, directories: list[str], name: str) -> None:
    """Make a file whose path is too long for a call."""
    fd = os.open(top, os.O_RDONLY)
    for directory in directories:
        with suppress(FileExistsError):
            os.mkdir(directory, dir_fd=fd)
        below = os.open(directory, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT, dir_fd=fd))
    os.close(fd)


def test_holes_of_a_file_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "upper").mkdir()
    with (tmp_path / "upper" / "comb").open("wb") as file:
        for number in range(20):
            file.seek(number << 20)
            file.write(b"x")
    write_diff(tmp_path / "upper", tmp_path / "diff.tar")
    monkeypatch.setattr(changed_files, "MAX_SEGMENTS", 10)
    with pytest.raises(Invalid, match="more than 10 holes"):
        write_diff(tmp_path / "upper", tmp_path / "diff.tar")


def test_disk_is_not_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "upper").mkdir()
    (tmp_path / "upper" / "file").write_text("content")
    monkeypatch.setattr(archive, "RESERVED", 1.0)
    with pytest.raises(Transient, match="no room for 7 bytes of a checkpoint"):
        write_diff(tmp_path / "upper", tmp_path / "diff.tar")


@pytest.mark.root
def test_files_whose_content_is_elsewhere_are_refused(tmp_path: Path) -> None:
    (tmp_path / "upper" / "d").mkdir(parents=True)
    os.setxattr(tmp_path / "upper" / "d", "trusted.overlay.redirect", b"/old")
    with pytest.raises(Unsupported, match="redirect_dir or metacopy"):
        write_diff(tmp_path / "upper", tmp_path / "diff.tar")


def test_link_that_replaces_a_file_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another container of the pod may reach the files of a frozen one (shareProcessNamespace)."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "upper").mkdir()
    (tmp_path / "upper" / "file").touch()
    look = os.stat

    def replaced(path: str, **options: object) -> os.stat_result:
        facts = look(path, **options)  # type: ignore[arg-type]
        if path == "file":
            (tmp_path / "upper" / "file").unlink()
            (tmp_path / "upper" / "file").symlink_to(tmp_path / "secret")
        return facts

    monkeypatch.setattr(os, "stat", replaced)
    with pytest.raises(PykubeletError):
        write_diff(tmp_path / "upper", tmp_path / "diff.tar")
    assert b"secret\n" not in (tmp_path / "diff.tar").read_bytes()

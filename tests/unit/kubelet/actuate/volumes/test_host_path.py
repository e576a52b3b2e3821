"""hostPath volumes: type checks and creation."""

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.base.errors import Conflict, Invalid
from pykubelet.kubelet.actuate.volumes.kinds import host_path
from pykubelet.kubelet.actuate.volumes.kinds.host_path import check
from pykubelet.testing.deep_directories import depth_of, make_deep, path_of, place_for_deep_ones

KINDS = {
    "Directory": (stat.S_IFDIR, "directory"),
    "File": (stat.S_IFREG, "file"),
    "Socket": (stat.S_IFSOCK, "socket file"),
    "CharDevice": (stat.S_IFCHR, "character device"),
    "BlockDevice": (stat.S_IFBLK, "block device"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("actual", [*KINDS, None])
def test_host_path_type_check_accepts_its_own_type_only(
    kind: str, actual: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    mode = None if actual is None else KINDS[actual][0]
    monkeypatch.setattr(host_path, "_mode_of", lambda path: mode)
    if kind == actual:
        check("/x", kind)
    else:
        with pytest.raises(Conflict) as caught:
            check("/x", kind)
        assert str(caught.value) == f"hostPath type check failed: /x is not a {KINDS[kind][1]}"


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    with socket.socket(socket.AF_UNIX) as server:
        # Socket paths are limited to 108 bytes, those of tests are longer.
        home = Path.cwd()
        os.chdir(tmp_path)
        try:
            server.bind("socket")
        finally:
            os.chdir(home)
        yield tmp_path


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("directory", "Directory"),
        ("directory", "DirectoryOrCreate"),
        ("file", "File"),
        ("file", "FileOrCreate"),
        ("link", "File"),
        ("socket", "Socket"),
    ],
)
def test_or_create_keeps_an_existing_path(places: Path, name: str, kind: str) -> None:
    before = (places / name).lstat()
    check(str(places / name), kind)
    assert (places / name).lstat() == before


def test_a_device_is_known() -> None:
    check("/dev/null", "CharDevice")


@pytest.mark.parametrize(
    ("name", "kind"), [("file", "DirectoryOrCreate"), ("directory", "FileOrCreate"), ("no", "File")]
)
def test_host_path_of_wrong_type_raises(places: Path, name: str, kind: str) -> None:
    with pytest.raises(Conflict, match="hostPath type check failed"):
        check(str(places / name), kind)


def test_missing_directories_are_made_whatever_the_umask(tmp_path: Path) -> None:
    mask = os.umask(0o077)
    try:
        check(str(tmp_path / "a/b"), "DirectoryOrCreate")
    finally:
        os.umask(mask)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "a/b")] == [0o755] * 2


def test_missing_files_are_made_but_not_their_directory(tmp_path: Path) -> None:
    check(str(tmp_path / "f"), "FileOrCreate")
    assert (tmp_path / "f").read_bytes() == b""
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o644
    with pytest.raises(FileNotFoundError):
        check(str(tmp_path / "a/f"), "FileOrCreate")


@pytest.mark.parametrize("kind", ["Directroy", "SocketOrCreate", "OrCreate"])
def test_unknown_types_are_refused(kind: str) -> None:
    with pytest.raises(Invalid, match=f"^{kind} is an invalid volume type$"):
        check("/dev/null", kind)


def test_mode_of_a_new_directory_is_set_on_no_link_that_took_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod that may write in the parent directory replaces the directory between its creation and its mode."""
    secret, place = tmp_path / "secret", tmp_path / "place"
    secret.mkdir(0o700)
    made = os.mkdir

    def mkdir(name: str, mode: int, *, dir_fd: int) -> None:
        made(name, mode, dir_fd=dir_fd)
        os.rmdir(name, dir_fd=dir_fd)
        os.symlink(secret, name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", mkdir)
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        check(str(place), "DirectoryOrCreate")
    assert secret.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("kind", ["DirectoryOrCreate", "FileOrCreate"])
def test_host_path_is_created_at_any_depth(tmp_path: Path, kind: str) -> None:
    with place_for_deep_ones(tmp_path) as place:
        if kind == "FileOrCreate":
            make_deep(place, 1500)
        path = f"{place}/{path_of(1500)}" + "/file" * (kind == "FileOrCreate")
        check(path, kind)
        before = os.stat(path)  # noqa: PTH116
        check(path, kind)
        check(path, kind.removesuffix("OrCreate"))
        assert os.stat(path) == before and depth_of(place) == 1500  # noqa: PTH116

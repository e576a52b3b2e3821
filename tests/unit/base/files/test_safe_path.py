"""Safe paths: nothing that a pod controls leads out of the root, not even in a race."""

import os
import stat
import threading
from pathlib import Path

import pytest

from pykubelet.base.errors import Conflict, Invalid, NotFound
from pykubelet.base.files import safe_path
from pykubelet.base.files.safe_path import directory_at, directory_in_root, open_regular_at, read_regular


def read(fd: int) -> bytes:
    with os.fdopen(fd, "rb") as file:
        return file.read()


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A volume with files, links of every kind, and a secret next to it."""
    (tmp_path / "secret").write_text("outside")
    root = tmp_path / "root"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "file").write_text("inside")
    (root / "secret").write_text("root's own")
    (root / "rel").symlink_to("a/b")
    (root / "abs").symlink_to("/a/b/file")
    (root / "escape").symlink_to("../../../../secret")
    (root / "escape-abs").symlink_to(tmp_path / "secret")
    (root / "a" / "up").symlink_to("../secret")
    (root / "loop1").symlink_to("loop2")
    (root / "loop2").symlink_to("loop1")
    (root / "dangling").symlink_to("a/new/dir")
    return root


@pytest.mark.parametrize(
    ("relative", "expected"),
    [
        ("a/b/file", b"inside"),
        ("/a/b/file", b"inside"),
        ("//a/./b//file", b"inside"),
        ("rel/file", b"inside"),
        ("rel/../../secret", b"root's own"),
        ("a/b/../../secret", b"root's own"),
        ("../../../secret", b"root's own"),
        ("abs", b"inside"),
        ("escape", b"root's own"),
        ("a/up", b"root's own"),
    ],
)
def test_open_stays_inside(root: Path, relative: str, expected: bytes) -> None:
    assert read(safe_path.open_in_root(root, relative, os.O_RDONLY)) == expected


@pytest.mark.parametrize(
    ("relative", "error"),
    [
        ("escape-abs", NotFound),
        ("missing", NotFound),
        ("a/missing/x", NotFound),
        ("loop1", Invalid),
        ("secret/x", Invalid),
        ("a\0b", Invalid),
        ("x" * 300, Invalid),
        ("../" * 10 + "etc/passwd", NotFound),
    ],
)
def test_open_in_root_refuses_paths_that_leave_the_root(root: Path, relative: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        safe_path.open_in_root(root, relative, os.O_RDONLY)


def test_missing_root_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="root directory"):
        safe_path.open_in_root(tmp_path / "no", "x", os.O_RDONLY)


def test_depth_is_bounded(root: Path) -> None:
    with pytest.raises(Invalid, match="directories deep"):
        safe_path.mkdir_in_root(root, "d/" * (safe_path.MAX_DEPTH + 1))


def test_nofollow_opens_or_refuses_the_link_in_the_last_component(root: Path) -> None:
    fd = safe_path.open_in_root(root, "rel", os.O_PATH | os.O_NOFOLLOW)
    try:
        assert stat.S_ISLNK(os.fstat(fd).st_mode)
    finally:
        os.close(fd)
    with pytest.raises(Invalid, match="symbolic link"):
        safe_path.open_in_root(root, "rel", os.O_RDONLY | os.O_NOFOLLOW)


def test_directory_flag_refuses_what_is_no_directory(root: Path) -> None:
    os.close(safe_path.open_in_root(root, "rel", os.O_PATH | os.O_DIRECTORY))
    os.close(safe_path.open_in_root(root, "", os.O_RDONLY | os.O_DIRECTORY))
    for flags in (os.O_PATH | os.O_DIRECTORY, os.O_RDONLY | os.O_DIRECTORY):
        with pytest.raises(Invalid, match="not a directory"):
            safe_path.open_in_root(root, "secret", flags)


def test_create_makes_files_inside_the_root_only(root: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    os.close(safe_path.open_in_root(root, "rel/new", flags, 0o600))
    assert (root / "a/b/new").is_file()
    (root / "out").symlink_to("/made")
    os.close(safe_path.open_in_root(root, "out", flags))
    assert (root / "made").is_file(), "a dangling link is created inside the root"
    os.close(safe_path.open_in_root(root, "abs", flags))
    assert (root / "a/b/file").read_text() == ""
    with pytest.raises(Conflict):
        safe_path.open_in_root(root, "abs", flags | os.O_EXCL)
    with pytest.raises(NotFound):
        safe_path.open_in_root(root, "missing/new", flags)


def test_beneath_without_links(root: Path) -> None:
    assert read(safe_path.open_beneath_no_symlinks(root, "a/b/file", os.O_RDONLY)) == b"inside"
    for relative in ("rel/file", "abs", "a/../secret", "a/up"):
        with pytest.raises(Invalid, match="not allowed here"):
            safe_path.open_beneath_no_symlinks(root, relative, os.O_RDONLY)


def test_regular_files_only(root: Path) -> None:
    os.mkfifo(root / "fifo")
    (root / "0.log").symlink_to("fifo")
    assert read(safe_path.open_regular_in_root(root, "abs")) == b"inside"
    for relative in ("fifo", "0.log", "a"):
        with pytest.raises(Invalid, match="not a regular file"):
            safe_path.open_regular_in_root(root, relative)


def test_mkdir_sets_the_mode_and_follows_inside(root: Path) -> None:
    old_mask = os.umask(0o077)
    try:
        fd = safe_path.mkdir_in_root(root, "rel/x/y", 0o2775)
    finally:
        os.umask(old_mask)
    try:
        assert os.path.samestat(os.fstat(fd), (root / "a/b/x/y").stat())
        assert stat.S_IMODE(os.fstat(fd).st_mode) == 0o2775
        assert stat.S_IMODE((root / "a/b/x").stat().st_mode) == 0o2775
    finally:
        os.close(fd)
    assert stat.S_IMODE((root / "a/b").stat().st_mode) != 0o2775


def test_mkdir_through_links(root: Path, tmp_path: Path) -> None:
    os.close(safe_path.mkdir_in_root(root, "dangling/z"))
    assert (root / "a/new/dir/z").is_dir()
    os.close(safe_path.mkdir_in_root(root, "../../evil"))
    assert (root / "evil").is_dir() and not (tmp_path / "evil").exists()
    (root / "out").symlink_to(tmp_path / "elsewhere")
    os.close(safe_path.mkdir_in_root(root, "out/z"))
    assert not (tmp_path / "elsewhere").exists()


def test_mkdir_over_a_file_is_a_conflict(root: Path) -> None:
    with pytest.raises(Conflict):
        safe_path.mkdir_in_root(root, "secret")
    with pytest.raises(Invalid):
        safe_path.mkdir_in_root(root, "secret/sub")


def test_proc_path_names_the_same_file(root: Path) -> None:
    fd = safe_path.open_in_root(root, "a/b/file", os.O_PATH)
    try:
        assert Path(safe_path.proc_path(fd)).read_text() == "inside"
    finally:
        os.close(fd)


def test_descriptors_are_closed(root: Path) -> None:
    before = descriptors()
    for relative in ("a/b/file", "abs", "loop1", "missing", "secret/x", "rel/../../secret"):
        try:
            os.close(safe_path.open_in_root(root, relative, os.O_RDONLY))
        except (NotFound, Invalid):
            pass
    os.close(safe_path.mkdir_in_root(root, "a/b/c/d"))
    assert descriptors() <= before


def test_a_symlink_swapper_never_gets_us_out(tmp_path: Path) -> None:
    """The CVE-2021-25741 race: a directory is swapped for a link to the outside while we walk."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("outside")
    root = tmp_path / "root"
    (root / "real").mkdir(parents=True)
    (root / "real" / "file").write_text("inside")
    (root / "link").symlink_to(outside)
    (root / "dir").mkdir()
    (root / "dir" / "file").write_text("inside")
    (root / "where").symlink_to("real")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (root / "dir").rename(root / "spare")
            (root / "link").rename(root / "dir")
            (root / "dir").rename(root / "link")
            (root / "spare").rename(root / "dir")
            for target in ("real", "../outside", str(outside)):
                (root / "next").symlink_to(target)
                (root / "next").rename(root / "where")

    thread = threading.Thread(target=swap, name="swapper")
    thread.start()
    seen = {"inside": 0, "refused": 0}
    try:
        for number in range(3000):
            try:
                content = read(safe_path.open_in_root(root, "dir/file", os.O_RDONLY))
                os.close(safe_path.mkdir_in_root(root, f"where/made{number % 10}"))
            except (NotFound, Invalid, Conflict):
                seen["refused"] += 1
                continue
            assert content == b"inside"
            seen["inside"] += 1
    finally:
        stop.set()
        thread.join()
    assert sorted(entry.name for entry in outside.iterdir()) == ["file"]
    assert seen["inside"] > 0


def test_directory_in_root_never_goes_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "root" / "a" / "b").mkdir(parents=True)
    (tmp_path / "root" / "a" / "link").symlink_to("b")
    with directory_in_root(tmp_path / "root", "a", "b") as fd:
        assert os.fstat(fd).st_ino == (tmp_path / "root" / "a" / "b").stat().st_ino
    for names in (("a", "link"), ("a", "absent"), ("a", "..")):
        with pytest.raises((OSError, Invalid)), directory_in_root(tmp_path / "root", *names):
            pytest.fail("it was opened")
    with pytest.raises(NotADirectoryError), directory_in_root(tmp_path / "root", "a", "link", "c", make=0o755):
        pytest.fail("it was opened")
    assert not (tmp_path / "root" / "a" / "b" / "c").exists()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b"])
def test_directory_in_root_refuses_what_is_no_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(Invalid, match="cannot be the name"), directory_in_root(tmp_path, name, make=0o755):
        pytest.fail("it was opened")
    with (
        directory_in_root(tmp_path) as top,
        pytest.raises(Invalid, match="cannot be the name"),
        directory_at(top, name),
    ):
        pytest.fail("it was opened")
    assert list(tmp_path.iterdir()) == []


def test_directory_at_opens_no_link(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "file").touch()
    before = len(list(Path("/proc/self/fd").iterdir()))
    with directory_in_root(tmp_path) as top:
        with directory_at(top, "a") as fd:
            assert os.fstat(fd).st_ino == (tmp_path / "a").stat().st_ino
        for name in ("link", "file", "absent"):
            with pytest.raises((NotADirectoryError, FileNotFoundError)), directory_at(top, name):
                pytest.fail("it was opened")
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_open_regular_at_opens_nothing_but_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")
    with directory_in_root(tmp_path) as directory:
        fd = open_regular_at(directory, "file")
        assert os.read(fd, 10) == b"content"
        os.close(fd)
        for name in ("link", "directory", "fifo"):
            with pytest.raises(Invalid, match="not a regular file"):
                open_regular_at(directory, name)
        with pytest.raises(FileNotFoundError):
            open_regular_at(directory, "absent")


def test_regular_file_is_read_through_links(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link", 5) == b"12345"
    assert b"cpu" in read_regular("/proc/stat", 1 << 20)


@pytest.mark.parametrize("path", ["absent", "directory", "fifo", "loop", "long", "device", "kernel", "file/below"])
def test_anything_but_a_short_regular_file_is_an_os_error(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "long").write_bytes(b"123456")
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "kernel").symlink_to("/proc/stat")
    with pytest.raises(OSError, match=f"{path}|longer"):
        read_regular(tmp_path / path, 5)

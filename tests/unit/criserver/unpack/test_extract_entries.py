"""Files that the entries of a layer become: content, holes, owners, modes, times, and replacements of other files."""

import errno
import os
import stat
import tarfile
from pathlib import Path

import pytest

from pykubelet.criserver.unpack.account import BLOCK
from pykubelet.criserver.unpack.limits import BadLayer
from tests.unit.criserver.storage.world import Entries, directory, directory_at, entry, hard, link
from tests.unit.criserver.unpack.extraction import extract, listed

pytestmark = pytest.mark.root


@pytest.mark.parametrize(("uid", "gid"), [(0, 0), (7, 0), (0, 8), (7, 8)])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.SYMTYPE])
def test_entry_has_its_owner_and_group_and_time(tmp_path: Path, kind: bytes, uid: int, gid: int) -> None:
    mine = entry("target", mtime=5), entry("a", kind, uid=uid, gid=gid, mtime=1_234, linkname="target")
    extract(tmp_path, list(mine))
    facts, target = (tmp_path / "a").lstat(), (tmp_path / "target").lstat()
    assert (facts.st_uid, facts.st_gid, facts.st_mtime) == (uid, gid, 1_234)
    assert (target.st_uid, target.st_gid, target.st_mtime, target.st_mode & 0o7777) == (0, 0, 5, 0o644)


@pytest.mark.parametrize("owner", [0, 7])
@pytest.mark.parametrize("mode", [0, 0o600, 0o644, 0o777, 0o4755, 0o2755, 0o1777, 0o6711, 0o7777])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
def test_entry_has_its_mode_and_any_owner(tmp_path: Path, kind: bytes, mode: int, owner: int) -> None:
    extract(tmp_path, [entry("a", kind, mode=mode, uid=owner)])
    assert stat.S_IMODE((tmp_path / "a").lstat().st_mode) == mode


def sparse(name: str, size: int, *segments: tuple[int, bytes]) -> tuple[tarfile.TarInfo, bytes]:
    data = b"".join(content for _, content in segments)
    places = ",".join(f"{offset},{len(content)}" for offset, content in segments)
    return entry(name, data=data, pax_headers={"GNU.sparse.size": str(size), "GNU.sparse.map": places})


LONG = os.urandom(3 << 20)
"""More than the stream yields in one piece."""
SPARSE: dict[str, tuple[int, list[tuple[int, bytes]]]] = {
    "hole first": (8 * BLOCK, [(7 * BLOCK, b"x" * BLOCK)]),
    "hole last": (8 * BLOCK, [(0, b"x" * BLOCK)]),
    "holes around": (16 * BLOCK, [(BLOCK, b"a" * BLOCK), (4 * BLOCK, b"b" * 100), (9 * BLOCK, b"c")]),
    "adjacent segments": (4 * BLOCK, [(0, b"a" * BLOCK), (BLOCK, b"b" * BLOCK), (2 * BLOCK, b"c" * BLOCK)]),
    "empty segment": (4 * BLOCK, [(0, b"a"), (BLOCK, b""), (2 * BLOCK, b"c"), (4 * BLOCK, b"")]),
    "nothing": (4 * BLOCK, []),
    "long segments": (8 << 20, [(0, LONG), (4 << 20, LONG)]),
}


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_file_has_its_segments_and_holes_between_them(tmp_path: Path, name: str) -> None:
    size, segments = SPARSE[name]
    expected = bytearray(size)
    for offset, content in segments:
        expected[offset : offset + len(content)] = content
    extract(tmp_path, [sparse("f", size, *segments), entry("after", data=b"after")])
    assert (tmp_path / "f").read_bytes() == expected and (tmp_path / "after").read_bytes() == b"after"
    taken = sum(-(-len(content) // BLOCK) for _, content in segments)
    assert (tmp_path / "f").stat().st_blocks * 512 <= taken * BLOCK


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
def test_attributes_are_set_on_files_and_directories(tmp_path: Path, kind: bytes) -> None:
    extract(tmp_path, [entry("a", kind, pax_headers={"SCHILY.xattr.user.one": "1", "SCHILY.xattr.user.two": "2"})])
    own = {name: os.getxattr(tmp_path / "a", name) for name in os.listxattr(tmp_path / "a")}
    assert own == ({} if kind == tarfile.FIFOTYPE else {"user.one": b"1", "user.two": b"2"}), "the kernel's rule"


def test_hard_link_to_a_file_of_a_lower_layer_is_reported_the_first_one_only(tmp_path: Path) -> None:
    written = extract(tmp_path, [hard("a", "low/one"), hard("b", "low/two"), entry("f"), hard("f/g", "f/one")])
    assert written.missing_links == ["/low/one"] and listed(tmp_path) == ["f"]


def test_hard_link_below_a_file_is_reported(tmp_path: Path) -> None:
    assert extract(tmp_path, [entry("f"), hard("a", "f/one")]).missing_links == ["/f/one"]


def test_hard_link_to_a_missing_file_over_lower_layers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadLayer, match="'/a' is a hard link to '/low', which does not exist"):
        extract(tmp_path, [hard("a", "low")], merged=True)
    assert listed(tmp_path) == []


@pytest.mark.parametrize("kind", [tarfile.DIRTYPE, tarfile.REGTYPE], ids=["directory", "whiteout"])
def test_hard_link_to_what_is_no_file_is_refused(tmp_path: Path, kind: bytes) -> None:
    with pytest.raises(BadLayer, match="'/a' is a hard link to '/x', which is no file"):
        extract(tmp_path, [directory("x") if kind == tarfile.DIRTYPE else entry(".wh.x"), hard("a", "x")])
    assert listed(tmp_path) == ["x"]


def test_hard_link_to_itself_changes_nothing(tmp_path: Path) -> None:
    extract(tmp_path, [entry("a", data=b"kept"), hard("a", "./a")])
    assert (tmp_path / "a").read_bytes() == b"kept" and (tmp_path / "a").stat().st_nlink == 1


def test_hard_link_leaves_owner_mode_and_time_of_its_target(tmp_path: Path) -> None:
    second = entry("b", tarfile.LNKTYPE, linkname="a", mode=0o777, uid=9, mtime=9)
    extract(tmp_path, [entry("a", mode=0o640, uid=7, mtime=5), second])
    facts = (tmp_path / "a").stat()
    assert (facts.st_mode & 0o7777, facts.st_uid, facts.st_mtime, facts.st_nlink) == (0o640, 7, 5, 2)


def test_second_name_of_a_file_keeps_the_time_when_the_first_is_replaced(tmp_path: Path) -> None:
    extract(tmp_path, [entry("a", tarfile.FIFOTYPE, mtime=5), hard("b", "a"), entry("a", mtime=6)])
    assert (tmp_path / "b").stat().st_mtime == 5 and (tmp_path / "a").stat().st_mtime == 6


def test_hard_link_in_an_implicit_directory_over_an_existing_file_replaces_it(tmp_path: Path) -> None:
    extract(tmp_path, [entry("a", data=b"a"), hard("new/b", "a"), entry("c", data=b"c"), hard("c", "a")])
    assert (tmp_path / "new/b").samefile(tmp_path / "a") and (tmp_path / "c").samefile(tmp_path / "a")


def through_a_link(*following: tuple[tarfile.TarInfo, bytes]) -> Entries:
    """A directory whose entry names it through a link; what follows; a directory with a time of its own."""
    first = [directory("real"), link("l", "real"), directory_at("l/d", 9_000)]
    return [*first, *following, directory_at("last", 7_000), entry("last/f", mtime=1)]


UNREACHABLE: dict[str, Entries] = {
    "replaced by a file": [entry("real/d", mtime=3_000)],
    "replaced by a link": [directory_at("other", 3_000), link("real/d", "/other")],
    "replaced by a directory": [entry("real/d"), entry("keeps", data=b"its inode"), directory("real/d")],
    "its parent is gone": [entry("real", mtime=3_000)],
    "the link is a file": [entry("l", mtime=3_000)],
    "the link leads nowhere": [link("l", "nowhere")],
    "the link is a loop": [link("l", "l")],
    "the link leads far": [link("l", "/".join(["n" * 200] * 20))],
}


@pytest.mark.parametrize("name", UNREACHABLE)
def test_directory_that_the_layer_has_replaced_does_not_pass_its_time_on(tmp_path: Path, name: str) -> None:
    extract(tmp_path, through_a_link(*UNREACHABLE[name]))
    assert (tmp_path / "last").stat().st_mtime == 7_000, "that of a later one is set all the same"
    for path in (tmp_path / "other", tmp_path / "real/d", tmp_path / "l"):
        if path.exists() and not path.is_symlink() and path.is_file():
            assert path.lstat().st_mtime == 3_000
    if name == "replaced by a link":
        assert (tmp_path / "other").stat().st_mtime == 3_000


def test_time_of_a_directory_named_through_a_link_is_set(tmp_path: Path) -> None:
    extract(tmp_path, through_a_link(entry("real/d/f", mtime=1)))
    assert (tmp_path / "real/d").stat().st_mtime == 9_000


def test_file_with_the_inode_number_of_a_directory_that_is_gone_has_its_own_time(tmp_path: Path) -> None:
    """The file system chooses the numbers: with many files, at least one has the number of a directory."""
    entries: Entries = [directory("real"), link("l", "real")]
    for number in range(60):
        entries += [directory_at(f"l/{number}", 9_000), entry(f"real/{number}", mtime=3_000)]
    extract(tmp_path, entries)
    assert {path.stat().st_mtime for path in (tmp_path / "real").iterdir()} == {3_000}


def test_time_is_not_set_on_the_directory_that_a_link_leads_to_by_now(tmp_path: Path) -> None:
    other = [directory("other"), directory_at("other/d", 3_000)]
    extract(tmp_path, [*other, *through_a_link(link("l", "other"))])
    assert (tmp_path / "other/d").stat().st_mtime == 3_000 and (tmp_path / "last").stat().st_mtime == 7_000


def test_directory_with_several_names_has_the_time_of_its_last_entry(tmp_path: Path) -> None:
    times = [directory_at("real/d", 1_000), directory_at("l/d", 2_000), directory_at("real/d", 3_000)]
    extract(tmp_path, [directory("real"), link("l", "real"), *times])
    assert (tmp_path / "real/d").stat().st_mtime == 3_000


def test_error_of_the_disk_while_times_are_set_is_raised(tmp_path: Path) -> None:
    """Only what the layer itself has made unreachable is left out."""
    with pytest.raises(OSError, match="Input/output error") as caught:
        extract(tmp_path, [directory("d")], errors={"utime": errno.EIO})
    assert caught.value.errno == errno.EIO


def test_error_of_the_disk_is_not_taken_for_one_of_the_layer(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left on device"):
        extract(tmp_path, [entry("pipe", tarfile.FIFOTYPE)], errors={"mkfifo": errno.ENOSPC})


def test_entries_before_an_invalid_entry_are_written_in_full(tmp_path: Path) -> None:
    """The caller removes it; nothing of the refused entry is there."""
    with pytest.raises(BadLayer, match="leads out of the layer"):
        extract(tmp_path, [directory("d"), entry("d/a", data=b"a"), entry("d/../b", data=b"b"), entry("c")])
    assert [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*"))] == ["d", "d/a"]


def test_more_files_than_descriptors_are_written(tmp_path: Path) -> None:
    """Each descriptor is closed, whether the file has content or not."""
    assert extract(tmp_path, [entry(f"{number}", data=b"x" * (number % 2)) for number in range(100)]).inodes == 101


@pytest.mark.parametrize("merged", [False, True], ids=["plain", "merged"])
def test_tree_is_replaced_by_a_file_and_a_file_by_a_tree(tmp_path: Path, merged: bool) -> None:
    entries: Entries = [directory("t"), directory("t/in"), entry("t/in/f"), entry("t/g"), entry("t", data=b"file")]
    entries += [entry("f"), directory("f"), entry("f/in", data=b"in"), link("l", "f"), directory("l"), entry("l/own")]
    extract(tmp_path, entries, merged=merged)
    assert (tmp_path / "t").read_bytes() == b"file" and (tmp_path / "f/in").read_bytes() == b"in"
    assert not (tmp_path / "l").is_symlink() and listed(tmp_path / "l") == ["own"]
    assert listed(tmp_path / "f") == ["in"]

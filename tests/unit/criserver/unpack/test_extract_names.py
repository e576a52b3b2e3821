"""Names, depths, devices and implicit directories of a layer, each at its limit and beyond."""

import os
import stat
import tarfile
from pathlib import Path

import pytest

from pykubelet.criserver.unpack.limits import BadLayer
from tests.unit.criserver.storage.world import Entries, directory, entry, hard, link
from tests.unit.criserver.unpack.extraction import extract, listed

pytestmark = pytest.mark.root


@pytest.mark.parametrize("front", ["", "d/"], ids=["first", "in a directory that was checked"])
@pytest.mark.parametrize("name", ["n" * 255, "é" * 127, "n" * 64])
def test_name_of_as_many_bytes_as_file_systems_allow_is_written(tmp_path: Path, front: str, name: str) -> None:
    extract(tmp_path, [entry(f"{front}a"), entry(f"{front}{name}", data=b"x")])
    assert (tmp_path / front / name).read_bytes() == b"x"


@pytest.mark.parametrize("front", ["", "d/"], ids=["first", "in a directory that was checked"])
@pytest.mark.parametrize("name", ["n" * 256, "é" * 128, os.fsdecode(b"\xff" * 256), f"{'n' * 256}/f"])
def test_name_of_more_bytes_is_refused(tmp_path: Path, front: str, name: str) -> None:
    with pytest.raises(BadLayer, match="a name longer than 255 bytes: '"):
        extract(tmp_path, [entry(f"{front}a"), entry(f"{front}{name}", data=b"x")])
    assert listed(tmp_path / front) == ["a"]


def test_path_of_512_names_is_written_and_one_of_513_is_refused(tmp_path: Path) -> None:
    extract(tmp_path, [entry("d/" * 511 + "f", data=b"x")])
    here = os.open(tmp_path, os.O_PATH)
    for _ in range(511):
        below = os.open("d", os.O_PATH, dir_fd=here)
        os.close(here)
        here = below
    assert stat.S_ISREG(os.stat("f", dir_fd=here).st_mode)
    os.close(here)
    (tmp_path / "other").mkdir()
    with pytest.raises(BadLayer, match="a name of 513 directories: "):
        extract(tmp_path / "other", [entry("d/" * 512 + "f")])
    assert listed(tmp_path / "other") == []


@pytest.mark.parametrize(
    "name", ["d/./f", "./d/f", "d//f", "/d/f", "d/f/."], ids=["dot", "first", "two", "absolute", "end"]
)
def test_names_of_the_same_file_are_one(tmp_path: Path, name: str) -> None:
    written = extract(tmp_path, [entry("d/a"), entry(name, data=b"one"), entry("d/b"), hard("same", name)])
    assert listed(tmp_path / "d") == ["a", "b", "f"] and (tmp_path / "same").read_bytes() == b"one"
    assert written.implicit == ["/d"] and written.missing_links == []


@pytest.mark.parametrize("name", ["d/..", "d/../x", "d/a/..", ".."])
def test_name_that_leads_up_is_refused_wherever_the_dots_are(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadLayer, match="leads out of the layer"):
        extract(tmp_path, [directory("d"), entry("d/a"), entry(name)])
    assert listed(tmp_path) == ["d"] and listed(tmp_path / "d") == ["a"]


@pytest.mark.parametrize("name", [".", "d/.", "d/", "d"])
def test_directory_has_the_mode_of_its_entry_however_it_is_named(tmp_path: Path, name: str) -> None:
    extract(tmp_path, [entry("d/a"), directory(name, 0o711), entry("d/b")])
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o711
    assert listed(tmp_path / "d") == ["a", "b"]


DEVICES = [(tarfile.CHRTYPE, 4095, 1), (tarfile.CHRTYPE, 1, (1 << 20) - 1), (tarfile.CHRTYPE, 0, 1)]
DEVICES += [(tarfile.CHRTYPE, 1, 0), (tarfile.BLKTYPE, 0, 0), (tarfile.BLKTYPE, 4095, (1 << 20) - 1)]


@pytest.mark.parametrize(("kind", "major", "minor"), DEVICES)
def test_device_of_any_number_that_the_kernel_has_is_created(
    tmp_path: Path, kind: bytes, major: int, minor: int
) -> None:
    extract(tmp_path, [entry("device", kind, devmajor=major, devminor=minor, mode=0o640, uid=1, gid=2)])
    facts = (tmp_path / "device").lstat()
    assert facts.st_rdev == os.makedev(major, minor)
    assert facts.st_mode == (stat.S_IFCHR if kind == tarfile.CHRTYPE else stat.S_IFBLK) | 0o640
    assert (facts.st_uid, facts.st_gid) == (1, 2)


REFUSED = [
    (tarfile.CHRTYPE, 0, 0, "a whiteout in disguise"),
    (tarfile.CHRTYPE, 4096, 1, "device 4096:1 is out of range"),
    (tarfile.BLKTYPE, 1, 1 << 20, "device 1:1048576 is out of range"),
]


@pytest.mark.parametrize(("kind", "major", "minor", "reason"), REFUSED)
def test_device_that_the_kernel_has_not_is_refused(
    tmp_path: Path, kind: bytes, major: int, minor: int, reason: str
) -> None:
    with pytest.raises(BadLayer, match=f"'device'.* {reason}"):
        extract(tmp_path, [entry("device", kind, devmajor=major, devminor=minor)])
    assert listed(tmp_path) == []


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.FIFOTYPE, tarfile.SYMTYPE])
def test_root_that_is_no_directory_is_refused(tmp_path: Path, kind: bytes) -> None:
    with pytest.raises(BadLayer, match="the root of the layer is a "):
        extract(tmp_path, [entry(".", kind, linkname="x" if kind == tarfile.SYMTYPE else "")])


def test_root_is_reported_only_if_the_layer_has_an_entry_for_it(tmp_path: Path) -> None:
    assert not extract(tmp_path, [entry("a")]).has_root
    assert extract(tmp_path, [directory("./", 0o711), entry("a")]).has_root
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o711


def test_implicit_directories_are_those_without_an_entry(tmp_path: Path) -> None:
    entries: Entries = [entry("a/b/c/f"), directory("a/b"), entry("d/f"), directory("e"), entry("e/f"), entry("g")]
    assert extract(tmp_path, entries).implicit == ["/a", "/a/b/c", "/d"]
    for path in ("a", "a/b/c", "d"):
        assert stat.S_IMODE((tmp_path / path).stat().st_mode) == 0o755


@pytest.mark.parametrize(
    ("limit", "expected"), [(3, ["/"]), (4, ["/aa", "/bb", "/bb/c", "/dd"]), (5, ["/aa", "/bb", "/bb/c", "/dd"])]
)
def test_implicit_directories_are_reported_up_to_a_number(tmp_path: Path, limit: int, expected: list[str]) -> None:
    entries = [entry("aa/f"), entry("bb/c/f"), entry("dd/f"), entry("dd/g")]
    assert extract(tmp_path, entries, constants={"_MAX_IMPLICIT": limit}).implicit == expected


@pytest.mark.parametrize(("limit", "all_of_them"), [(11, False), (13, False), (14, True), (15, True)])
def test_implicit_directories_are_reported_up_to_a_number_of_characters(
    tmp_path: Path, limit: int, all_of_them: bool
) -> None:
    constants = {"_MAX_IMPLICIT_LENGTH": limit}
    entries = [entry("aa/f"), entry("bb/c/f"), entry("dd/f"), entry("dd/g")]
    written = extract(tmp_path, entries, constants=constants)
    assert written.implicit == (["/aa", "/bb", "/bb/c", "/dd"] if all_of_them else ["/"])


def test_directories_count_once_even_if_removed_and_created_again(tmp_path: Path) -> None:
    entries = [entry("a/f"), entry("a", data=b"x"), entry("b/f")]
    assert extract(tmp_path, entries).implicit == ["/b"]


@pytest.mark.parametrize("name", ["a/b", "a/b/c", "a/.wh.b", "a/.wh..wh..opq", "a/d/"])
def test_entry_below_a_file_is_refused_by_the_name_of_the_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadLayer, match=r"'/a/.*': '/a' is not a directory"):
        extract(tmp_path, [entry("a", data=b"kept"), entry(name, tarfile.DIRTYPE if name[-1] == "/" else b"0")])
    assert (tmp_path / "a").read_bytes() == b"kept"


def test_entry_below_a_link_that_leads_nowhere_creates_the_directory_it_leads_to(tmp_path: Path) -> None:
    written = extract(tmp_path, [link("l", "x/y"), entry("l/f", data=b"x")])
    assert (tmp_path / "x/y/f").read_bytes() == b"x" and (tmp_path / "l").is_symlink()
    assert written.implicit == ["/x", "/x/y"]


@pytest.mark.parametrize("name", ["l/f", "l/in/", "l/.wh.f"])
def test_entry_below_a_link_through_a_missing_directory_is_refused(tmp_path: Path, name: str) -> None:
    """Such a link leads nowhere, although a real directory is what remains of it without the dots."""
    kind = tarfile.DIRTYPE if name[-1] == "/" else tarfile.REGTYPE
    with pytest.raises(BadLayer, match=r"'/l/.*' cannot be created: a component of its path leads nowhere"):
        extract(tmp_path, [directory("real"), link("l", "missing/../real"), entry(name, kind)])
    assert listed(tmp_path) == ["l", "real"] and listed(tmp_path / "real") == []


@pytest.mark.parametrize("entries", [[link("a", "a"), entry("a/f")], [link("a", "b"), link("b", "a"), entry("a/f")]])
def test_entry_below_a_loop_of_links_is_refused(tmp_path: Path, entries: Entries) -> None:
    with pytest.raises(BadLayer, match="'/a/f': Too many levels of symbolic links"):
        extract(tmp_path, entries)


def test_link_to_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadLayer, match="'/l': a symbolic link to nowhere"):
        extract(tmp_path, [link("l", "")])
    assert listed(tmp_path) == []

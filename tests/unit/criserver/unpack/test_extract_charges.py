"""Charges for the entries of a layer: exact numbers of bytes and inodes, and the limits at their edges."""

import os
import tarfile
from pathlib import Path

import pytest

from pykubelet.base.units import Bytes
from pykubelet.criserver.unpack.account import BLOCK
from pykubelet.criserver.unpack.limits import BadLayer, Limits
from tests.unit.criserver.storage.world import ACL, Entries, directory, entry, hard, link
from tests.unit.criserver.unpack.extraction import charged, extract, listed, names

pytestmark = pytest.mark.root

Charge = tuple[int, int]


def attributed(name: str, kind: bytes, **values: int) -> Entries:
    """An entry with ``user`` attributes of these sizes."""
    return [entry(name, kind, pax_headers={f"SCHILY.xattr.user.{key}": "v" * size for key, size in values.items()})]


def sparse(name: str, size: int, *segments: tuple[int, bytes]) -> Entries:
    data = b"".join(content for _, content in segments)
    places = ",".join(f"{offset},{len(content)}" for offset, content in segments)
    return [entry(name, data=data, pax_headers={"GNU.sparse.size": str(size), "GNU.sparse.map": places})]


PLAIN: dict[str, tuple[Entries, Charge]] = {
    "empty file": ([entry("f")], (names("f"), 1)),
    "file of one byte": ([entry("f", data=b"x")], (BLOCK + names("f"), 1)),
    "file of one block": ([entry("f", data=bytes(BLOCK))], (BLOCK + names("f"), 1)),
    "file of a block and a byte": ([entry("f", data=bytes(BLOCK + 1))], (2 * BLOCK + names("f"), 1)),
    "file in a directory": ([directory("dir"), entry("dir/file")], (BLOCK + names("dir", "file"), 2)),
    "file below implicit directories": ([entry("dir/in/file")], (2 * BLOCK + names("dir", "in", "file"), 3)),
    "directory": ([directory("dir")], (BLOCK + names("dir"), 1)),
    "root": ([directory("./")], (0, 0)),
    "fifo": ([entry("fifo", tarfile.FIFOTYPE)], (names("fifo"), 1)),
    "device": ([entry("null", tarfile.CHRTYPE, devmajor=1, devminor=3)], (names("null"), 1)),
    "link that fits into its inode": ([link("l", "t" * 59)], (names("l"), 1)),
    "longer link": ([link("l", "t" * 60)], (BLOCK + names("l"), 1)),
    "link to a name that is not ASCII": ([link("l", "é")], (BLOCK + names("l"), 1)),
    "hard link": ([entry("f", data=b"x"), hard("same", "f")], (BLOCK + names("f", "same"), 1)),
    "hard link to a file that is not there": ([hard("same", "f")], (names("same"), 0)),
    "attributes of a file": (attributed("f", tarfile.REGTYPE, a=1, b=2), (BLOCK + names("f"), 1)),
    "attributes of a fifo": (attributed("f", tarfile.FIFOTYPE, a=1), (BLOCK + names("f"), 1)),
    "attributes of a directory": (attributed("d", tarfile.DIRTYPE, a=1), (2 * BLOCK + names("d"), 1)),
    "attributes of the root": (attributed("./", tarfile.DIRTYPE, a=1), (BLOCK, 0)),
    "attributes that are left out": (
        [entry("f", pax_headers={"SCHILY.xattr.trusted.overlay.opaque": "y"})],
        (names("f"), 1),
    ),
    "sparse file": (sparse("f", 1 << 20, (0, b"x"), (1 << 19, b"y")), (2 * BLOCK + names("f"), 1)),
    "sparse file whose segment crosses blocks": (sparse("f", 1 << 20, (BLOCK - 1, b"xx")), (2 * BLOCK + names("f"), 1)),
    "holes only": (sparse("f", 1 << 20, (1 << 20, b"")), (names("f"), 1)),
    "whiteout": ([entry(".wh.gone")], (names("gone"), 1)),
    "file that replaces one": ([entry("f"), entry("f", data=b"x")], (BLOCK + names("f", "f"), 2)),
    "file that replaces a tree": ([directory("f"), entry("f/in"), entry("f")], (BLOCK + names("f", "in", "f"), 3)),
    "whiteout in an implicit directory": ([entry("dir/.wh.gone")], (BLOCK + names("dir", "gone"), 2)),
    "opaque directory": ([directory("dir"), entry("dir/.wh..wh..opq")], (BLOCK + names("dir"), 1)),
    "files of aufs": ([entry(".wh..wh.plnk")], (0, 0)),
}


@pytest.mark.parametrize("name", PLAIN)
def test_entries_of_a_layer_are_charged_with_what_they_take(tmp_path: Path, name: str) -> None:
    entries, expected = PLAIN[name]
    assert charged(extract(tmp_path, entries)) == expected


COPY = 2 * BLOCK
"""A directory that overlayfs copies up: its own block, and one for attributes."""
MERGED: dict[str, tuple[Entries, Charge]] = {
    "file": ([entry("f", data=b"x")], (BLOCK + names("f"), 1)),
    "empty file": ([entry("f")], (names("f"), 1)),
    "empty file that replaces one of the layers below": ([entry("one")], (names("one", "one"), 2)),
    "file with attributes": (attributed("f", tarfile.REGTYPE, a=1), (BLOCK + names("f"), 1)),
    "fifo": ([entry("fifo", tarfile.FIFOTYPE)], (names("fifo"), 1)),
    "file that inherits an ACL": ([entry("acl/f")], (COPY + BLOCK + names("acl", "f"), 2)),
    "file that inherits an ACL behind a link": ([entry("to-acl/f")], (COPY + BLOCK + names("acl", "f"), 2)),
    "fifo that inherits an ACL": ([entry("acl/f", tarfile.FIFOTYPE)], (COPY + BLOCK + names("acl", "f"), 2)),
    "link, which inherits no ACL": ([link("acl/l", "t")], (COPY + names("acl", "l"), 2)),
    "directory that inherits an ACL": ([directory("acl/in")], (COPY + 2 * BLOCK + names("acl", "in"), 2)),
    "file in a directory that inherits an ACL": ([entry("acl/in/f")], (2 * COPY + BLOCK + names("acl", "in", "f"), 3)),
    "directory": ([directory("new")], (2 * BLOCK + names("new"), 1)),
    "link": ([link("l", "t")], (names("l"), 1)),
    "file in a directory of the layers below": ([entry("low/f")], (COPY + names("low", "f"), 2)),
    "file deeper below": ([entry("low/er/f")], (2 * COPY + names("low", "er", "f"), 3)),
    "file below implicit directories": ([entry("new/er/f")], (BLOCK + 2 * COPY + names("new", "er", "f"), 3)),
    "opaque directory without an entry": ([entry("new/.wh..wh..opq")], (COPY + names("new"), 1)),
    "opaque directory without an entry in a directory of the layers below": (
        [entry("low/er/new/.wh..wh..opq")],
        (3 * COPY + names("low", "er", "new"), 3),
    ),
    "two files in a directory": (
        [entry("low/f"), entry("low/er/f"), entry("low/er/g")],
        (2 * COPY + names("low", "er", "f", "f", "g"), 5),
    ),
    "file in a directory with a short name": ([entry("d/f")], (COPY + names("d", "f"), 2)),
    "file behind a link": ([entry("to-low/f")], (COPY + names("low", "f"), 2)),
    "whiteout": ([entry("low/.wh.one")], (COPY + names("low", "one"), 2)),
    "whiteout of nothing": ([entry("low/.wh.none")], (COPY + names("low", "none"), 2)),
    "whiteout of a file of the layer itself": ([entry("f"), entry(".wh.f")], (names("f"), 1)),
    "hard link to an empty file": (
        [hard("low/same", "low/empty")],
        (COPY + BLOCK + names("low", "same", "empty"), 2),
    ),
    "hard link to a file of two blocks": (
        [hard("same", "low/er/two")],
        (2 * COPY + 3 * BLOCK + names("low", "er", "two", "same"), 3),
    ),
    "hard links to one file": (
        [hard("same", "one"), hard("again", "one")],
        (2 * BLOCK + names("one", "same", "again"), 1),
    ),
    "hard links to one file by two paths": (
        [hard("same", "low/one"), hard("again", "to-low/one")],
        (COPY + 2 * BLOCK + names("low", "one", "same", "again"), 2),
    ),
    "hard link to itself": ([hard("one", "one")], (names("one"), 0)),
    "hard link to a file of the layer itself": (
        [entry("f", data=bytes(5 * BLOCK)), hard("same", "f")],
        (5 * BLOCK + names("f", "same"), 1),
    ),
}


@pytest.mark.parametrize("name", MERGED)
def test_entries_over_lower_layers_are_charged_with_the_copies_that_overlayfs_makes(tmp_path: Path, name: str) -> None:
    (tmp_path / "low/er").mkdir(parents=True)
    (tmp_path / "d").mkdir()
    (tmp_path / "to-low").symlink_to("low")
    (tmp_path / "acl").mkdir()
    os.setxattr(tmp_path / "acl", "system.posix_acl_default", ACL)
    (tmp_path / "to-acl").symlink_to("acl")
    for file, blocks in {"one": 1, "low/one": 1, "low/er/two": 2, "low/empty": 0}.items():
        (tmp_path / file).write_bytes(bytes(blocks * BLOCK))
        assert (tmp_path / file).stat().st_blocks * 512 == blocks * BLOCK, "the file system counts like this test"
    entries, expected = MERGED[name]
    assert charged(extract(tmp_path, entries, merged=True)) == expected


def test_removed_tree_is_charged_with_a_whiteout_of_each_file(tmp_path: Path) -> None:
    (tmp_path / "low").mkdir()
    for number in range(5):
        (tmp_path / f"low/{number}").touch()
    size, inodes = charged(extract(tmp_path, [entry(".wh.low")], merged=True))
    assert inodes >= 6 and size >= names("low", *"01234")
    assert list(tmp_path.iterdir()) == []


BLOCKS: dict[str, tuple[Entries, int]] = {
    "file": ([entry("dir/f", data=bytes(10_000))], 4 * BLOCK + names("dir", "f")),
    "links": ([link(f"{number}", "t" * 100) for number in range(9)], 9 * (BLOCK + names("0"))),
    "whiteouts": ([entry(f".wh.{number}") for number in range(9)], 9 * names("0")),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_layer_may_take_as_much_as_its_limit_and_no_byte_more(tmp_path: Path, name: str) -> None:
    entries, size = BLOCKS[name]
    taken = BLOCK + size
    for limit in (taken + 1, taken):
        root = tmp_path / str(limit)
        root.mkdir()
        assert extract(root, entries, limits=Limits(ratio_from=Bytes(limit))).bytes == taken
    (tmp_path / "less").mkdir()
    with pytest.raises(BadLayer, match=f"more than {taken - 1} bytes on the disk"):
        extract(tmp_path / "less", entries, limits=Limits(ratio_from=Bytes(taken - 1)))


INODES: dict[str, Entries] = {
    "files": [entry("a"), entry("b")],
    "implicit directories": [entry("a/b")],
    "links": [link("a", "x"), link("b", "x")],
    "whiteouts": [entry(".wh.a"), entry(".wh.b")],
    "directories": [directory("a"), directory("a/b")],
}


@pytest.mark.parametrize("name", INODES)
def test_layer_may_have_as_many_files_as_its_limit_and_none_more(tmp_path: Path, name: str) -> None:
    for limit in (4, 3):
        root = tmp_path / str(limit)
        root.mkdir()
        assert extract(root, INODES[name], limits=Limits(max_inodes=limit)).inodes == 3
    (tmp_path / "less").mkdir()
    with pytest.raises(BadLayer, match="more than 2 files"):
        extract(tmp_path / "less", INODES[name], limits=Limits(max_inodes=2))
    assert len(listed(tmp_path / "less")) <= 1, "refused before it is created"


@pytest.mark.parametrize(("kind", "blocks"), [(tarfile.FIFOTYPE, 0), (tarfile.CHRTYPE, 0), (tarfile.DIRTYPE, 1)])
def test_size_in_the_header_of_an_entry_without_content_is_not_charged(
    tmp_path: Path, kind: bytes, blocks: int
) -> None:
    """Some writers put the size that the file system tells of a directory there."""
    header, _ = entry("a", kind, size=40_960, devmajor=1, devminor=3)
    assert charged(extract(tmp_path, header.tobuf() + bytes(1024))) == (blocks * BLOCK + names("a"), 1)

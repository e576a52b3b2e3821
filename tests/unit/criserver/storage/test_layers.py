"""Hostile and odd layers against the real worker: nothing outside its directory changes, good layers come out exact."""

import gzip
import json
import os
import stat
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard

from pykubelet.base.errors import Conflict, Invalid, PykubeletError, Transient
from pykubelet.base.units import Bytes
from pykubelet.criserver.storage import Layers
from pykubelet.criserver.storage.remove import remove_any, remove_tree
from pykubelet.criserver.unpack.extract import _MAX_IMPLICIT_LENGTH
from pykubelet.criserver.unpack.limits import Limits
from pykubelet.linux.filesystems import removal
from pykubelet.linux.filesystems.fsusage import tree_usage
from pykubelet.testing.loop_files import files_in_loop
from tests.unit.criserver.storage.world import Entries, World, directory, entry, hard, link, tar
from tests.unit.criserver.unpack.chunked import zstd_chunked

pytestmark = pytest.mark.root


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    root = tmp_path / "world"
    root.mkdir()
    made = World(root)
    yield made
    made.assert_unharmed()


UP = "../" * 12
HOSTILE: dict[str, Callable[[Path], Entries]] = {
    "dots": lambda out: [entry(UP + str(out)[1:], data=b"evil")],
    "dots inside": lambda out: [directory("a"), entry("a/../../../outside", data=b"evil")],
    "absolute": lambda out: [entry(str(out), data=b"evil")],
    "link then write": lambda out: [link("a", str(out)), entry("a", data=b"evil")],
    "directory link then write": lambda out: [link("a", str(out.parent)), entry("a/outside", data=b"evil")],
    "link chain": lambda out: [link("a", "b"), link("b", UP), entry("a/outside", data=b"evil")],
    "link loop": lambda out: [link("a", "b"), link("b", "a"), entry("a/x", data=b"evil")],
    "link up": lambda out: [link("a", UP), entry(f"a{out}", data=b"evil")],
    "hard link outside": lambda out: [hard("a", str(out)), entry("a", data=b"evil")],
    "hard link dots": lambda out: [hard("a", "../../../outside")],
    "hard link through link": lambda out: [link("d", str(out.parent)), hard("a", "d/outside")],
    "hard link to link": lambda out: [link("l", str(out)), hard("a", "l"), entry("a", data=b"evil")],
    "hard link to directory": lambda out: [directory("d"), hard("a", "d")],
    "whiteout outside": lambda out: [link("d", str(out.parent)), entry("d/.wh.outside")],
    "whiteout dots": lambda out: [entry("a/.wh...")],
    "whiteout dot": lambda out: [entry("a/.wh..")],
    "empty whiteout": lambda out: [entry("a/.wh.")],
    "opaque outside": lambda out: [link("d", str(out.parent)), entry("d/.wh..wh..opq")],
    "mode through link": lambda out: [link("a", str(out)), entry("a", mode=0o777, data=b"")],
    "directory over link": lambda out: [
        link("a", str(out.parent)),
        directory("a", 0o777),
        entry("a/outside", data=b"evil"),
    ],
    "whiteout device": lambda out: [entry("a", tarfile.CHRTYPE, devmajor=0, devminor=0)],
    "huge device": lambda out: [entry("a", tarfile.BLKTYPE, devmajor=5000, devminor=1)],
    "deep": lambda out: [entry("d/" * 600 + "f")],
    "long name": lambda out: [entry("n" * 300)],
    "long path": lambda out: [entry("/".join(["n" * 200] * 30))],
    "long link": lambda out: [link("a", "x" * 5000)],
    "root is a file": lambda out: [entry("./")],
    "root is a link": lambda out: [link(".", "/etc")],
    "file below file": lambda out: [entry("a", data=b"x"), entry("a/b", data=b"y")],
    "fifo": lambda out: [entry("a", tarfile.FIFOTYPE), entry("a", data=b"not blocked")],
    "overlay redirect": lambda out: [
        entry("d", tarfile.DIRTYPE, pax_headers={"SCHILY.xattr.trusted.overlay.redirect": "/x"})
    ],
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_layers_change_nothing_outside(world: World, name: str) -> None:
    try:
        root = await world.unpack(HOSTILE[name](world.outside))
    except Invalid:
        assert [path.name for path in world.layers.directory.iterdir()] == ["0"], "a refused layer leaves nothing"
        return
    for path in root.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            assert "trusted.overlay.redirect" not in os.listxattr(path)


def _far_down() -> Entries:
    """Each link leads deeper than a name can say, and then all of it is to be replaced."""
    found: Entries = []
    before = ""
    for number in range(12):
        path = f"{before}/" * bool(before) + "/".join(["n" * 7] * 450)
        found += [directory(path), link(f"s{number}", f"/{path}")]
        before = f"s{number}"
    return [*found, entry(f"{before}/f/g", data=b"x"), link("n" * 7, "x")]


def _chain() -> Entries:
    links = [link(f"c{number}", f"c{number + 1}") for number in range(1500)]
    return [*links, link("l", "missing/../c0/x"), entry("l/y/z", data=b"1")]


BREAKING: dict[str, Callable[[], Entries]] = {
    "chain of links": _chain,
    "deep behind links": _far_down,
    "NUL in an attribute": lambda: [entry("a", pax_headers={"SCHILY.xattr.user.a\0b": "v"})],
    "long attribute": lambda: [entry("a", pax_headers={"SCHILY.xattr.user." + "é" * 140: "v"})],
}
REFUSED = (
    "dots",
    "dots inside",
    "hard link outside",
    "hard link dots",
    "hard link to directory",
    "whiteout dots",
    "deep",
)


@pytest.mark.parametrize("name", [*REFUSED, "link loop", "long name", "long path", "whiteout device", "huge device"])
async def test_layer_with_hostile_entries_is_refused(world: World, name: str) -> None:
    with pytest.raises(Invalid, match="layer sha256:"):
        await world.unpack(HOSTILE[name](world.outside))


@pytest.mark.parametrize("name", ["chain of links", "deep behind links", "NUL in an attribute", "long attribute"])
async def test_layer_beyond_the_limits_of_the_worker_is_refused(world: World, name: str) -> None:
    """Not told as a failure of the machine, after which the pull would be tried again for ever."""
    with pytest.raises(Invalid, match="layer sha256:"):
        await world.unpack(BREAKING[name]())


async def test_an_attribute_that_has_no_room_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems have room for small ones only."""
    try:
        root = await world.unpack([entry("a", pax_headers={"SCHILY.xattr.user.a": "v" * 60_000})])
    except Transient as error:
        assert "extended attribute user.a of 60000 bytes: " in str(error)
    else:
        assert len(os.getxattr(root / "a", "user.a")) == 60_000


async def test_names_that_are_no_text(world: World) -> None:
    """Implicit directories and links to the layer below, with names that are not UTF-8."""
    odd = os.fsdecode(b"gro\xdf")
    below = tar([directory(odd, 0o700), entry(f"{odd}/file", data=b"x")], tarfile.GNU_FORMAT)
    world.add(below)
    world.add(tar([entry(f"{odd}/\udcff/deep", data=b"y"), hard("same", f"{odd}/file")], tarfile.GNU_FORMAT))
    await world.layers.ensure(world.stack)
    root = await world.mount()
    try:
        assert (root / odd).stat().st_mode & 0o777 == 0o700
        assert (root / odd / "\udcff" / "deep").read_bytes() == b"y" and (root / "same").read_bytes() == b"x"
    finally:
        await world.snapshots.remove_rootfs("c")


async def test_more_directories_in_passing_than_are_listed(world: World) -> None:
    """A directory of the layer below keeps its mode all the same."""
    await world.unpack([directory("z", 0o700)])
    many = [entry(f"{number}/" + f"{'n' * 200}/" * 19 + "f") for number in range(60)]
    await world.unpack([*many, entry("z/f")])
    assert len(many) * sum(200 * count for count in range(19)) > _MAX_IMPLICIT_LENGTH
    root = await world.mount()
    try:
        assert (root / "z").stat().st_mode & 0o777 == 0o700 and (root / "z/f").exists()
    finally:
        await world.snapshots.remove_rootfs("c")


@pytest.mark.parametrize(
    ("limits", "plain"),
    [
        (Limits(max_bytes=Bytes(100_000)), tar([entry("a", data=bytes(200_000))])),
        (Limits(ratio_from=Bytes(1 << 20)), tar([entry("a", data=bytes(50 << 20))])),
        (Limits(max_entries=10), tar([entry(f"f{number}") for number in range(11)])),
        (Limits(max_header=Bytes(1000)), tar([entry("a", pax_headers={"comment": "x" * 2000})])),
        (Limits(max_xattr=Bytes(100)), tar([entry("a", pax_headers={"SCHILY.xattr.user.x": "x" * 200})])),
    ],
    ids=["bytes", "ratio", "entries", "header", "xattr"],
)
async def test_bombs_are_stopped(tmp_path: Path, limits: Limits, plain: bytes) -> None:
    world = World(tmp_path, limits)
    world.add(plain, gzip.compress(plain))
    with pytest.raises(Invalid):
        await world.layers.ensure(world.stack)
    assert [path.name for path in world.layers.directory.iterdir()] == ["0"]


@pytest.mark.parametrize("damage", ["cut", "flipped", "checksum", "text", "diff id"])
async def test_damaged_streams_are_refused(world: World, damage: str) -> None:
    good = tar([entry("a", data=os.urandom(100_000)), entry("b", data=b"b")])
    packed = gzip.compress(good)
    half = len(packed) // 2
    bad = {
        "cut": packed[:half],
        "flipped": packed[:half] + bytes([packed[half] ^ 0xFF]) + packed[half + 1 :],
        "checksum": b"x" + good[1:],
        "text": b"hello" * 1000,
        "diff id": tar([entry("other")]),
    }[damage]
    world.add(good, bad)
    with pytest.raises(Invalid):
        await world.layers.ensure(world.stack)


@pytest.mark.parametrize("kind", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT], ids=["pax", "gnu"])
@pytest.mark.parametrize("packing", ["plain", "gzip", "members", "zstd", "chunked"])
async def test_everything_of_an_entry_arrives(world: World, kind: int, packing: str) -> None:
    long = "/".join(["n" * 100] * 3)
    capability = bytes.fromhex("0100000200000400000000000000000000000000").decode("latin-1")
    entries = [
        directory("d", 0o1777),
        entry("d/suid", data=b"#!", mode=0o4755, uid=1000, gid=2000, mtime=1_234_567_890),
        hard("d/same", "d/suid"),
        link("d/link", "/no/where"),
        entry("null", tarfile.CHRTYPE, devmajor=1, devminor=3, mode=0o666),
        entry("disk", tarfile.BLKTYPE, devmajor=8, devminor=1),
        entry("pipe", tarfile.FIFOTYPE),
        entry(long, data=b"long", uid=3_000_000),
        entry("großé", data=b"x", pax_headers={"SCHILY.xattr.security.capability": capability}),
        directory("d", 0o700),
    ]
    plain = tar(entries, kind)
    if packing in ("zstd", "chunked"):
        packed = zstandard.compress(plain) if packing == "zstd" else zstd_chunked(plain)
    else:
        middle = len(plain) // 2
        members = gzip.compress(plain[:middle]) + gzip.compress(plain[middle:])
        packed = {"plain": plain, "gzip": gzip.compress(plain), "members": members}[packing]
    world.add(plain, packed)
    meta = await world.layers.ensure(world.stack)
    root = world.layers.directory / str(meta.directory)
    facts = (root / "d/suid").stat()
    assert (facts.st_mode & 0o7777, facts.st_uid, facts.st_gid, facts.st_mtime) == (0o4755, 1000, 2000, 1_234_567_890)
    assert facts.st_nlink == 2 and (root / "d/same").samefile(root / "d/suid")
    assert str((root / "d/link").readlink()) == "/no/where"
    assert (root / "null").stat().st_rdev == os.makedev(1, 3) and (root / "disk").stat().st_rdev == os.makedev(8, 1)
    assert stat.S_ISFIFO((root / "pipe").stat().st_mode)
    assert (root / long).read_bytes() == b"long" and (root / long).stat().st_uid == 3_000_000
    assert (root / "d").stat().st_mode & 0o7777 == 0o700
    if kind == tarfile.PAX_FORMAT:
        assert len(os.getxattr(root / "großé", "security.capability")) == 20
    assert meta.inodes == len(entries) + 2, "the root and two directories that have no entry, but no hard link"
    assert tree_usage(str(root)).bytes <= meta.bytes


async def test_files_of_a_layer_that_is_unpacked_are_used_in_threads(world: World) -> None:
    await world.unpack([directory("d"), entry("d/one", data=b"1")])
    world.add(tar([entry("d/two", data=b"2")]))
    with files_in_loop(world.root) as used:
        meta = await world.layers.ensure(world.stack)
    assert used == []
    assert (world.layers.directory / str(meta.directory) / "d" / "two").read_bytes() == b"2"


async def test_whiteouts_hide_what_lies_below(world: World) -> None:
    await world.unpack(
        [directory("keep"), entry("keep/a", data=b"a"), directory("gone"), entry("gone/x"), directory("new")]
    )
    await world.unpack([entry("new/old"), directory("opaque"), entry("opaque/low")])
    await world.unpack(
        [
            directory("keep"),
            entry("keep/.wh.a"),
            entry(".wh.gone"),
            directory("opaque"),
            entry("opaque/.wh..wh..opq"),
            entry("opaque/high"),
            entry(".wh.new"),
            directory("new"),
            entry("new/fresh"),
            entry(".wh..wh.plnk"),
        ]
    )
    root = await world.mount()
    try:
        assert sorted(str(path.relative_to(root)) for path in root.rglob("*")) == [
            "keep",
            "new",
            "new/fresh",
            "opaque",
            "opaque/high",
        ]
    finally:
        await world.snapshots.remove_rootfs("c")


async def test_a_layer_that_leans_on_those_below(world: World) -> None:
    """Files in directories it does not describe, below links it does not have, linked to files it does not bring."""
    await world.unpack(
        [
            directory("tmp", 0o1777),
            directory("usr"),
            directory("usr/lib"),
            link("lib", "usr/lib"),
            entry("usr/lib/a", data=b"a"),
        ]
    )
    await world.unpack(
        [entry("tmp/x", data=b"x"), entry("lib/b", data=b"b"), hard("c", "usr/lib/a"), entry("usr/.wh.none")]
    )
    root = await world.mount()
    try:
        assert (root / "tmp").stat().st_mode & 0o7777 == 0o1777
        assert (root / "lib").is_symlink()
        assert sorted(path.name for path in (root / "usr/lib").iterdir()) == ["a", "b"]
        assert (root / "c").read_bytes() == b"a"
    finally:
        await world.snapshots.remove_rootfs("c")


async def test_the_root_has_the_mode_that_the_topmost_layer_says(world: World) -> None:
    await world.unpack([entry("./", tarfile.DIRTYPE, mode=0o711, uid=7), entry("a")])
    await world.unpack([entry("b")])
    root = await world.mount()
    try:
        assert root.stat().st_mode & 0o7777 == 0o711 and root.stat().st_uid == 7
    finally:
        await world.snapshots.remove_rootfs("c")


async def test_an_image_of_127_layers(world: World) -> None:
    for number in range(127):
        world.add(tar([entry(f"f{number}")]))
    root = await world.mount()
    try:
        assert len(list(root.iterdir())) == 127
    finally:
        await world.snapshots.remove_rootfs("c")


async def test_a_layer_unpacked_before_a_power_cut_is_not_trusted(world: World) -> None:
    await world.unpack([entry("a")])
    (meta,) = (world.root / "storage/meta").iterdir()
    meta.write_text(meta.read_text().replace('"boot":"', '"boot":"earlier-'))
    again = Layers(root=world.root / "storage", blob=lambda digest: world.blobs / digest[7:])
    again.load()
    assert again.get(world.stack[0].chain_id) is None
    await again.ensure(world.stack)
    await again.sync([world.stack[0].chain_id])
    (meta,) = (world.root / "storage/meta").iterdir()
    meta.write_text(meta.read_text().replace('"boot":"', '"boot":"earlier-'))
    again.load()
    assert again.get(world.stack[0].chain_id) is not None


@pytest.mark.parametrize("what", ["folder", "chain_id"])
async def test_a_damaged_note_passes_no_layer_off_as_another(world: World, what: str) -> None:
    for name in ("a", "b"):
        await world.unpack([entry(name)])
    first, second = (
        (world.root / "storage/meta") / f"{layer.chain_id.replace(':', '-')}.json" for layer in world.stack
    )
    other = json.loads(second.read_text())
    first.write_text(json.dumps(json.loads(first.read_text()) | {what: other[what]}))
    again = Layers(root=world.root / "storage", blob=lambda digest: world.blobs / digest[7:])
    again.load()
    assert again.get(world.stack[0].chain_id) is None
    meta = await again.ensure(world.stack[:1])
    assert [path.name for path in (again.directory / str(meta.directory)).iterdir()] == ["a"]
    meta = await again.ensure(world.stack)
    assert [path.name for path in (again.directory / str(meta.directory)).iterdir()] == ["b"]


async def test_a_note_that_was_cut_before_it_got_its_name_is_removed(world: World) -> None:
    """Its content is good, so it must not pass for the note itself."""
    await world.unpack([entry("a", data=b"1")])
    (note,) = (world.root / "storage" / "meta").iterdir()
    (note.parent / f".{note.name}.0123456789ab.tmp").write_bytes(note.read_bytes())
    again = Layers(root=world.root / "storage", blob=lambda digest: world.blobs / digest[7:])
    again.load()
    assert [path.name for path in note.parent.iterdir()] == [note.name]


@pytest.mark.parametrize("name", ["..", "", "a/b", "-x", "x" * 200])
async def test_container_names_that_are_no_directory_names(world: World, name: str) -> None:
    with pytest.raises(PykubeletError):
        await world.snapshots.remove_rootfs(name)


def test_trees_of_any_depth_and_with_links_are_removed(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("stays")
    here = os.open(top, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        os.symlink(tmp_path / "outside", "link", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    remove_tree(str(top))
    remove_tree(str(top))
    assert not top.exists() and (tmp_path / "outside/file").read_text() == "stays"
    assert tree_usage(str(tmp_path)).inodes == 3


def test_tree_with_a_mount_below_keeps_the_data_beyond_it_and_is_removed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = tmp_path / "top"
    (top / "in/volume").mkdir(parents=True)
    (top / "in/volume/data").write_text("of another pod")
    inode = (top / "in/volume").stat().st_ino
    opened = removal.open_directory

    def open_directory(parent: int, name: str) -> int:
        if os.stat(name, dir_fd=parent).st_ino == inode:
            raise Conflict(f"{name!r} is a mount point")
        return opened(parent, name)

    monkeypatch.setattr(removal, "open_directory", open_directory)
    with pytest.raises(Transient, match=rf"cannot remove {top}: .* is a mount point"):
        remove_tree(str(top))
    assert [path.read_text() for path in top.rglob("data")] == ["of another pod"]
    monkeypatch.undo()
    remove_tree(str(top))
    assert not top.exists()


def test_tree_below_a_linked_directory_is_removed_and_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real/tree").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    remove_tree(str(tmp_path / "link/tree"))
    assert not (tmp_path / "real/tree").exists()
    (tmp_path / "real/file").write_text("stays")
    with pytest.raises(Invalid, match="cannot remove"):
        remove_tree(str(tmp_path / "link"))
    remove_any(str(tmp_path / "link"))
    assert (tmp_path / "real/file").exists() and not (tmp_path / "link").is_symlink()

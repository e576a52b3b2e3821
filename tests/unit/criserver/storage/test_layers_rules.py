"""Rules of layers, each by itself: attributes, hard links, whiteouts, and what of a directory is set last."""

import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from tests.unit.criserver.storage.world import World, directory, directory_at, entry, hard, link

pytestmark = pytest.mark.root

_STEERING = ("user.overlay.opaque", "user.overlay.redirect", "trusted.overlay.opaque", "trusted.overlay.redirect")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    root = tmp_path / "world"
    root.mkdir()
    made = World(root)
    yield made
    made.assert_unharmed()


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.DIRTYPE])
async def test_attributes_that_steer_overlayfs_are_left_out(world: World, kind: bytes) -> None:
    given = {f"SCHILY.xattr.{name}": "y" for name in (*_STEERING, "user.overlayed", "user.own", "trusted.own")}
    root = await world.unpack([entry("a", kind, pax_headers=given)])
    assert sorted(os.listxattr(root / "a")) == ["user.overlayed", "user.own"]


async def test_hard_link_to_a_symbolic_link_is_that_link(world: World) -> None:
    root = await world.unpack([entry("file", data=b"x"), link("link", "file"), hard("second", "link")])
    assert (root / "second").is_symlink() and (root / "second").lstat().st_ino == (root / "link").lstat().st_ino
    assert (root / "file").stat().st_nlink == 1


@pytest.mark.parametrize("lower", [True, False], ids=["merged", "plain"])
async def test_hard_link_to_a_whiteout_is_refused(world: World, lower: bool) -> None:
    """It would be another whiteout, under a name that no whiteout was meant for."""
    if lower:
        await world.unpack([entry("x", data=b"x"), directory("d"), entry("d/a")])
    with pytest.raises(Invalid, match=r"hard link to '/x', which (is no file|does not exist)"):
        await world.unpack([entry("d/b"), entry(".wh.x"), hard("y", "x")])


async def test_opaque_directory_of_a_merged_layer_keeps_what_the_layer_brings(world: World) -> None:
    """However its entries are ordered: whiteouts concern the layers below only."""
    await world.unpack([directory("d"), entry("d/old"), directory("d/in"), entry("d/in/old"), entry("single")])
    upper = await world.unpack(
        [
            entry("d/own", data=b"own"),
            entry("d/in/own", data=b"own"),
            entry("d/.wh..wh..opq"),
            entry("d/.wh.own"),
            hard("linked", "single"),
        ]
    )
    assert (upper / "d/own").read_bytes() == b"own"
    root = await world.mount()
    try:
        found = sorted(str(path.relative_to(root)) for path in root.rglob("*"))
        assert found == ["d", "d/in", "d/in/old", "d/in/own", "d/own", "linked", "single"]
    finally:
        await world.snapshots.remove_rootfs("c")


@pytest.mark.parametrize("name", [".wh..wh.plnk", ".wh..wh.aufs", ".wh..wh.orph", "d/.wh..wh.plnk"])
async def test_files_of_aufs_leave_no_trace(world: World, name: str) -> None:
    root = await world.unpack([directory("d"), entry(name, data=b"x"), directory(f"{name}x")])
    assert [path.relative_to(root).as_posix() for path in root.rglob("*")] == ["d"]


async def test_directory_has_its_own_time_whatever_is_put_into_it(world: World) -> None:
    root = await world.unpack(
        [
            directory_at("d", 1_000),
            entry("d/file", mtime=2_000),
            directory_at("d/in", 3_000),
            entry("d/in/.wh.gone"),
            hard("d/in/hard", "d/file"),
            directory_at("twice", 4_000),
            directory_at("twice", 5_000),
        ]
    )
    times = {path: int((root / path).stat().st_mtime) for path in ("d", "d/file", "d/in", "twice")}
    assert times == {"d": 1_000, "d/file": 2_000, "d/in": 3_000, "twice": 5_000}


async def test_entry_that_replaces_a_directory_does_not_get_its_time(world: World) -> None:
    """Neither its time, nor through a link in its place the directory that this leads to."""
    root = await world.unpack(
        [
            directory_at("other", 1_000),
            directory_at("other/in", 2_000),
            directory_at("file", 9_000),
            entry("file", mtime=3_000),
            directory_at("linked", 9_000),
            directory_at("linked/in", 9_000),
            link("linked", "other"),
            directory_at("hard", 9_000),
            entry("first", mtime=4_000),
            hard("hard", "first"),
        ]
    )
    times = {path: int((root / path).stat().st_mtime) for path in ("other", "other/in", "file", "hard")}
    assert times == {"other": 1_000, "other/in": 2_000, "file": 3_000, "hard": 4_000}


async def test_directory_removed_and_made_again_shows_nothing_of_the_old_one(world: World) -> None:
    await world.unpack([directory("d"), entry("d/old")])
    upper = await world.unpack([entry(".wh.d"), directory("d"), entry("d/new")])
    assert os.getxattr(upper / "d", "trusted.overlay.opaque") == b"y"
    assert stat.S_ISDIR((upper / "d").lstat().st_mode)


async def test_chain_of_links_to_a_directory_of_lower_layers_is_followed_or_refused(world: World) -> None:
    """In a layer that is merged with those below, too."""
    links = [link(f"c{number}", f"c{number + 1}") for number in range(1500)]
    await world.unpack([directory("d"), *links])
    with pytest.raises(Invalid, match="layer sha256:"):
        await world.unpack([entry("d/x"), entry("c0/y", data=b"y")])

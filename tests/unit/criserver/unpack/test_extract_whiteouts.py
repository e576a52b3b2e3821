"""Whiteouts and opaque directories: as marks for overlayfs in a layer, as removals over the layers below it."""

import os
import stat
from pathlib import Path

import pytest

from pykubelet.criserver.unpack.limits import BadLayer
from tests.unit.criserver.storage.world import Entries, directory, directory_at, entry, hard, link
from tests.unit.criserver.unpack.extraction import extract, listed

pytestmark = pytest.mark.root

_OPAQUE = "trusted.overlay.opaque"


def tree(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*"))


def is_opaque(path: Path) -> bool:
    return _OPAQUE in os.listxattr(path) and os.getxattr(path, _OPAQUE) == b"y"


def is_whiteout(path: Path) -> bool:
    facts = path.lstat()
    return facts.st_mode == stat.S_IFCHR and facts.st_rdev == 0


@pytest.mark.parametrize("name", ["gone", ".hidden", "wh", "...", "..gone", "-"])
@pytest.mark.parametrize("front", ["", "d/", "d/in/"])
def test_whiteout_becomes_the_device_that_hides_the_name(tmp_path: Path, front: str, name: str) -> None:
    extract(tmp_path, [entry(f"{front}.wh.{name}")])
    assert is_whiteout(tmp_path / front / name) and listed(tmp_path / front) == [name]
    assert not front or stat.S_IMODE((tmp_path / front).stat().st_mode) == 0o755


@pytest.mark.parametrize("hidden", ["", ".", ".."])
def test_whiteout_of_no_name_is_refused(tmp_path: Path, hidden: str) -> None:
    with pytest.raises(BadLayer, match=f"'/d/.wh.{hidden}' is a whiteout of '{hidden}'"):
        extract(tmp_path, [directory("d"), entry(f"d/.wh.{hidden}")])
    assert tree(tmp_path) == ["d"] and not is_opaque(tmp_path / "d")


def test_whiteout_of_a_directory_of_the_layer_hides_only_what_lies_below_it(tmp_path: Path) -> None:
    extract(tmp_path, [directory("d", 0o711), entry("d/own", data=b"own"), entry(".wh.d")])
    assert is_opaque(tmp_path / "d") and (tmp_path / "d/own").read_bytes() == b"own"
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o711


@pytest.mark.parametrize("own", [entry("f", data=b"own"), link("f", "d")], ids=["file", "link to a directory"])
def test_whiteout_of_another_entry_of_the_layer_leaves_it(tmp_path: Path, own: Entries) -> None:
    extract(tmp_path, [directory("d"), own, entry(".wh.f")])  # type: ignore[list-item]
    assert tree(tmp_path) == ["d", "f"] and not is_whiteout(tmp_path / "f")
    assert not is_opaque(tmp_path / "d") and os.listxattr(tmp_path / "f", follow_symlinks=False) == []


@pytest.mark.parametrize("following", [[entry("d", data=b"new")], [link("d", "new")], [entry("x"), hard("d", "x")]])
def test_entry_after_a_whiteout_of_its_name_replaces_it(tmp_path: Path, following: Entries) -> None:
    extract(tmp_path, [entry(".wh.d"), *following])
    assert not is_whiteout(tmp_path / "d") and not is_opaque(tmp_path)


@pytest.mark.parametrize("following", [[directory("d", 0o711), entry("d/f")], [entry("d/f")]], ids=["own", "implicit"])
def test_directory_that_follows_its_whiteout_is_opaque(tmp_path: Path, following: Entries) -> None:
    written = extract(tmp_path, [entry(".wh.d"), *following])
    assert is_opaque(tmp_path / "d") and tree(tmp_path) == ["d", "d/f"]
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == (0o711 if len(following) == 2 else 0o755)
    assert written.implicit == ([] if len(following) == 2 else ["/d"])


@pytest.mark.parametrize("front", ["", "d/", "d/in/"])
def test_opaque_mark_is_set_on_its_directory_alone(tmp_path: Path, front: str) -> None:
    extract(tmp_path, [directory("d"), directory("d/in"), entry(f"{front}.wh..wh..opq"), entry(f"{front}own")])
    assert [each for each in ("", "d/", "d/in/") if is_opaque(tmp_path / each)] == [front]
    assert (tmp_path / front / "own").exists()


def test_opaque_mark_of_a_directory_without_an_entry_creates_it(tmp_path: Path) -> None:
    written = extract(tmp_path, [entry("d/in/.wh..wh..opq")])
    assert is_opaque(tmp_path / "d/in") and not is_opaque(tmp_path / "d") and written.implicit == ["/d", "/d/in"]


@pytest.mark.parametrize("name", [".wh..wh.plnk", "d/.wh..wh.aufs", ".wh..wh.", "d/.wh..wh..opqx"])
def test_files_of_aufs_hide_nothing(tmp_path: Path, name: str) -> None:
    extract(tmp_path, [directory("d"), entry("d/f"), entry(name, data=b"x")])
    assert tree(tmp_path) == ["d", "d/f"] and not is_opaque(tmp_path / "d") and not is_opaque(tmp_path)


@pytest.fixture
def lower(tmp_path: Path) -> Path:
    """The files of the layers below."""
    for path in ("d/in/old", "d/old", "e/old", "file"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("low")
    return tmp_path


ALL = ["d", "d/in", "d/in/old", "d/old", "e", "e/old", "file"]
REMOVED: dict[str, tuple[Entries, list[str]]] = {
    "file": ([entry(".wh.file")], ALL[:-1]),
    "file in a directory": ([entry("d/in/.wh.old")], ["d", "d/in", "d/old", "e", "e/old", "file"]),
    "tree": ([entry(".wh.d")], ["e", "e/old", "file"]),
    "nothing": ([entry(".wh.none"), entry("none/.wh.none")], ALL),
    "own file": ([entry("own"), entry(".wh.own")], [*ALL, "own"]),
    "own file that replaced one": ([entry("file", data=b"own"), entry(".wh.file")], ALL),
    "own link": ([link("d/link", "old"), entry("d/.wh.link")], ["d", "d/in", "d/in/old", "d/link", *ALL[3:]]),
    "directory with an own file": ([entry("d/in/own"), entry(".wh.d")], sorted([*ALL, "d/in/own"])),
    "another one in it": ([entry("d/own"), entry("d/.wh.in")], ["d", "d/old", "d/own", *ALL[4:]]),
    "opaque": ([entry("d/.wh..wh..opq")], ["d", "e", "e/old", "file"]),
    "opaque with own files": (
        [entry("d/in/own"), entry("d/own"), entry("d/.wh..wh..opq")],
        ["d", "d/in", "d/in/old", "d/in/own", "d/own", "e", "e/old", "file"],
    ),
    "opaque, and own files later": ([entry("d/.wh..wh..opq"), entry("d/own")], ["d", "d/own", "e", "e/old", "file"]),
    "opaque root": ([entry("e/own"), entry(".wh..wh..opq")], ["e", "e/old", "e/own"]),
    "files of aufs": ([entry("d/.wh..wh.plnk")], ALL),
}


@pytest.mark.parametrize("name", REMOVED)
def test_whiteout_over_lower_layers_removes_what_the_layer_has_not_brought(lower: Path, name: str) -> None:
    entries, expected = REMOVED[name]
    extract(lower, entries, merged=True)
    assert tree(lower) == expected
    assert not is_opaque(lower) and not is_opaque(lower / "e")


def test_removed_directory_does_not_pass_its_time_on_to_the_one_that_follows(lower: Path) -> None:
    """Its inode number may be used again."""
    first = [directory_at("e", 5_000), entry("e", data=b"x", mtime=6_000), directory("e/"), entry("e/f", mtime=7_000)]
    extract(lower, [*first, directory_at("d", 8_000), entry("d/f")], merged=True)
    assert (lower / "e").stat().st_mtime != 5_000 and (lower / "d").stat().st_mtime == 8_000


@pytest.mark.parametrize("merged", [False, True], ids=["plain", "merged"])
@pytest.mark.parametrize("name", ["to-d/.wh.old", "to-d/.wh..wh..opq"])
def test_whiteout_behind_a_link_applies_to_the_directory_it_leads_to(tmp_path: Path, name: str, merged: bool) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "to-d").symlink_to("/d")
    if merged:
        (tmp_path / "d/old").write_text("low")
    extract(tmp_path, [entry(name)], merged=merged)
    if merged:
        assert tree(tmp_path) == ["d", "to-d"]
    else:
        assert is_opaque(tmp_path / "d") if "opq" in name else is_whiteout(tmp_path / "d/old")


@pytest.mark.parametrize("name", ["to-d/.wh.own", "to-d/.wh..wh..opq", "d/.wh.own", "d/.wh..wh..opq"])
@pytest.mark.parametrize("own", ["d/own", "to-d/own"])
def test_whiteout_leaves_what_the_layer_has_brought_by_whichever_path(lower: Path, own: str, name: str) -> None:
    (lower / "to-d").symlink_to("d")
    extract(lower, [entry(own, data=b"own"), entry(name)], merged=True)
    assert (lower / "d/own").read_bytes() == b"own"


def test_link_of_the_layers_below_is_removed_though_the_layer_wrote_through_it(lower: Path) -> None:
    (lower / "to-d").symlink_to("d")
    extract(lower, [entry("to-d/own"), entry(".wh.to-d")], merged=True)
    assert not (lower / "to-d").is_symlink() and (lower / "d/own").exists()


@pytest.mark.parametrize("target", ["nowhere", "/nowhere/in"])
def test_opaque_mark_behind_a_link_to_nothing_creates_the_directory(tmp_path: Path, target: str) -> None:
    extract(tmp_path, [link("l", target), entry("l/.wh..wh..opq")])
    assert is_opaque(tmp_path / target.lstrip("/"))

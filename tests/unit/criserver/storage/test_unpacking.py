"""Archives that are unpacked by a worker which cannot leave the directory; chroot needs root."""

import io
import os
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid, Transient
from pykubelet.base.units import MIB
from pykubelet.criserver.storage.remove import remove_any
from pykubelet.criserver.storage.unpacking import unpack_archive
from pykubelet.criserver.unpack.limits import Limits
from pykubelet.linux.filesystems.mounts import unmount

pytestmark = pytest.mark.root
_LIMITS = Limits()


def _tar(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def _file(name: str, data: bytes = b"") -> tuple[tarfile.TarInfo, bytes]:
    return tarfile.TarInfo(name), data


def _link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


async def _unpack(archive: Path, directory: Path, *, merged: bool = False, limits: Limits = _LIMITS) -> None:
    directory.mkdir(exist_ok=True)
    with archive.open("rb") as file:
        await unpack_archive(file.fileno(), "archive a", directory, merged=merged, limits=limits)


async def test_names_and_links_stay_in_the_directory(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    archive = _tar(
        tmp_path / "a.tar",
        _file("/outside/two", b"2"),
        _link("away", str(outside)),
        _file("away/three", b"3"),
    )
    await _unpack(archive, tmp_path / "in")
    assert list(outside.iterdir()) == []
    assert (tmp_path / "in" / "outside" / "two").read_bytes() == b"2"
    with pytest.raises(Invalid, match="leads out of the layer"):
        await _unpack(_tar(tmp_path / "c.tar", _file("../outside/one", b"1")), tmp_path / "in")
    hard = _tar(tmp_path / "b.tar", _link("secret", "/etc/shadow", tarfile.LNKTYPE))
    try:
        await _unpack(hard, tmp_path / "hard")
    except Invalid:
        pass
    assert not (tmp_path / "hard" / "secret").exists()


async def test_whiteouts_remove_files_of_a_merged_directory_only(tmp_path: Path) -> None:
    archive = _tar(tmp_path / "a.tar", _file(".wh.gone"), _file("d/.wh..wh..opq"), _file("d/new", b"new"))
    place = tmp_path / "merged"
    (place / "d").mkdir(parents=True)
    for name in ("gone", "d/old", "kept"):
        (place / name).touch()
    await _unpack(archive, place, merged=True)
    assert sorted(str(path.relative_to(place)) for path in place.rglob("*")) == ["d", "d/new", "kept"]
    await _unpack(archive, tmp_path / "layer")
    assert stat.S_ISCHR((tmp_path / "layer" / "gone").lstat().st_mode)


async def test_errors_name_the_archive(tmp_path: Path) -> None:
    (tmp_path / "bad.tar").write_bytes(os.urandom(10_000))
    with pytest.raises(Invalid, match="archive a: "):
        await _unpack(tmp_path / "bad.tar", tmp_path / "in")
    many = _tar(tmp_path / "many.tar", *(_file(str(number)) for number in range(20)))
    with pytest.raises(Invalid, match=r"archive a: .* more than 10 "):
        await _unpack(many, tmp_path / "many", limits=Limits(max_entries=10))


@pytest.mark.parametrize(
    ("kind", "link"),
    [(tarfile.SYMTYPE, "/"), (tarfile.LNKTYPE, "first"), (tarfile.FIFOTYPE, ""), (tarfile.CHRTYPE, "")],
)
async def test_archive_of_files_only_has_nothing_else(tmp_path: Path, kind: bytes, link: str) -> None:
    archive = _tar(tmp_path / "a.tar", _file("first"), _link("d/other", link, kind), _file("last"))
    with pytest.raises(Invalid, match=r"archive a: 'd/other' is neither a file nor a directory"):
        await _unpack(archive, tmp_path / "in", limits=Limits(only_files=True))
    assert not (tmp_path / "in" / "last").exists()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128m,nr_inodes=20k", "tmpfs", place], check=True)
    try:
        yield place
    finally:
        unmount(str(place))


@pytest.mark.parametrize("compressed", [False, True])
async def test_space_is_left_on_the_disk(tmp_path: Path, disk: Path, compressed: bool) -> None:
    limits = Limits(reserve=0.2)
    await _unpack(_zeros(tmp_path / "a", 90 * MIB, compressed), disk / "in", limits=limits)
    (disk / "in" / "zeros").unlink()
    for archive in (
        _zeros(tmp_path / "b", 110 * MIB, compressed),
        _tar(tmp_path / "c", *(_file(f"{number}", b"1" * 8192) for number in range(14_000))),
        _tar(tmp_path / "d", *(_file(f"{number}") for number in range(19_500))),
    ):
        with pytest.raises(
            Transient, match=r"cannot unpack archive a: .*the disk has no room; 20% of it are kept free"
        ):
            await _unpack(archive, disk / archive.name, limits=limits)
        facts = os.statvfs(disk)
        assert facts.f_bavail > 0.15 * facts.f_blocks and facts.f_favail > 0.15 * facts.f_files
        shutil.rmtree(disk / archive.name)


async def test_links_do_not_make_a_merged_tree_deeper_than_names_can_say(tmp_path: Path) -> None:
    long = "/".join("d" * 500)
    directory = tarfile.TarInfo(long)
    directory.type = tarfile.DIRTYPE
    archive = _tar(tmp_path / "a.tar", (directory, b""), _link("link", long), _file(f"link/{long}/file"))
    try:
        with pytest.raises(Invalid, match=r"archive a: .* is deeper than 512 directories"):
            await _unpack(archive, tmp_path / "in", merged=True)
    finally:
        remove_any(str(tmp_path / "in"))  # pytest cannot


def _zeros(path: Path, size: int, compressed: bool) -> Path:
    with tarfile.open(path, "w:gz" if compressed else "w") as tar:
        info = tarfile.TarInfo("zeros")
        info.size = size
        with Path("/dev/zero").open("rb") as zeros:
            tar.addfile(info, zeros)
    return path

"""Archives that are unpacked by a worker which cannot leave the directory; chroot needs root."""

import io
import os
import stat
import tarfile
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.criserver.storage.unpacking import unpack_archive

pytestmark = pytest.mark.root


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


async def _unpack(archive: Path, directory: Path, *, merged: bool = False, max_files: int | None = None) -> None:
    directory.mkdir(exist_ok=True)
    with archive.open("rb") as file:
        await unpack_archive(file.fileno(), "archive a", directory, merged=merged, max_files=max_files)


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
        await _unpack(many, tmp_path / "many", max_files=10)

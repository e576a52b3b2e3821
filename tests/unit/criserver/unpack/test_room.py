"""The part of a disk that pulls and imports leave free for the daemons and the pods."""

import gzip
import io
import json
import os
import shutil
import tarfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import Transient
from pykubelet.base.units import MIB, Bytes
from pykubelet.criserver.compose.images import ImageComponents, open_images
from pykubelet.criserver.config import Settings
from pykubelet.criserver.images.content import ContentStore
from pykubelet.criserver.unpack.account import Account
from pykubelet.criserver.unpack.limits import Limits
from pykubelet.criserver.unpack.room import OF_IMAGES, Reserve, Room
from pykubelet.linux.filesystems.mounts import mount, unmount

pytestmark = pytest.mark.root
_SAID = r"the disk has no room; 2% of it, at most 512 MiB, are kept free"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 MiB and 10,000 inodes of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    mount("tmpfs", str(place), "tmpfs", data="size=256m,nr_inodes=10000")
    try:
        yield place
    finally:
        unmount(str(place), lazy=True)


def _free(disk: Path) -> tuple[float, float]:
    found = os.statvfs(disk)
    return found.f_bavail / found.f_blocks, found.f_favail / found.f_files


def _fill(disk: Path, free: float) -> Path:
    """Leave so many bytes of the disk free."""
    found, path = os.statvfs(disk), disk / "filling"
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, int(found.f_bavail * found.f_frsize - free))
    return path


@pytest.mark.parametrize(
    ("reserve", "fits"),
    [
        (Reserve(0.5), 127 * MIB),
        (Reserve(0.5, Bytes(64 * MIB)), 191 * MIB),
        (Reserve(0.02, Bytes(512 * MIB)), 250 * MIB),
    ],
)
def test_reserve_is_a_share_or_so_many_bytes_whichever_is_less(disk: Path, reserve: Reserve, fits: int) -> None:
    Room(str(disk), reserve).take(fits)
    with pytest.raises(OSError, match="the disk has no room"):
        Room(str(disk), reserve).take(fits + 2 * MIB)


def test_reserve_of_inodes_is_limited_like_that_of_bytes(disk: Path) -> None:
    for reserve, fits in ((Reserve(0.5), 4900), (Reserve(0.5, Bytes(16 * MIB)), 8900)):
        Room(str(disk), reserve).take(0, inodes=fits)
        with pytest.raises(OSError, match="the disk has no room"):
            Room(str(disk), reserve).take(0, inodes=fits + 200)


def test_blob_without_room_is_refused_before_it_is_fetched(disk: Path) -> None:
    writer = ContentStore(disk / "images").writer(f"sha256:{'0' * 64}", 255 * MIB)
    with writer, pytest.raises(Transient, match=_SAID):
        writer.resume()


def test_blob_whose_room_is_taken_meanwhile_ends_before_the_disk_is_full(disk: Path) -> None:
    """Others write at the same time: what fits at the beginning may not fit any more."""
    with ContentStore(disk / "images").writer(f"sha256:{'0' * 64}", 200 * MIB) as writer:
        writer.resume()
        _fill(disk, free=64 * MIB)
        piece = bytes(1 * MIB)
        with pytest.raises(Transient, match=_SAID):
            for _ in range(200):
                writer.write(piece)
    assert _free(disk)[0] > 0.5 * OF_IMAGES.share


def test_layer_whose_room_is_taken_meanwhile_ends_before_the_disk_is_full(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(disk)
    account = Account(Limits(reserve=0.1), compressed=200 * MIB)
    account.data(200 * MIB)
    _fill(disk, free=27 * MIB)
    for _ in range(4):
        account.writing(1)
    (disk / "another").write_bytes(bytes(2 * MIB))
    with pytest.raises(OSError, match="the disk has no room"):
        for _ in range(5):
            account.writing(1 * MIB)


def _archive(path: Path, layer: bytes, *, plain_size: int) -> Path:
    """An image of one compressed layer, in docker's layout."""
    diff_id = f"sha256:{sha256(gzip.decompress(layer)).hexdigest()}"
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    config = {"os": "linux", "architecture": machine, "rootfs": {"type": "layers", "diff_ids": [diff_id]}}
    manifest = [{"Config": "config.json", "RepoTags": ["big:1"], "Layers": ["layer.tar.gz"]}]
    assert len(gzip.decompress(layer)) >= plain_size
    with tarfile.open(path, "w") as archive:
        for name, data in (
            ("config.json", json.dumps(config).encode()),
            ("layer.tar.gz", layer),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def _layer(*files: tuple[str, int]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as layer:
        for name, size in files:
            info = tarfile.TarInfo(name)
            info.size = size
            layer.addfile(info, io.BytesIO(bytes(size)))
    return buffer.getvalue()


async def _open(disk: Path) -> ImageComponents:
    return await open_images(Settings(root=disk / "root", run=disk / "run"), SystemClock())


@pytest.mark.parametrize("of_files", [False, True])
async def test_image_that_would_fill_the_disk_is_refused_and_leaves_the_reserve(
    tmp_path: Path, disk: Path, of_files: bool
) -> None:
    """As the server unpacks them; an image that fits is taken then."""
    components = await _open(disk)
    files = tuple((f"f{number}", 0) for number in range(9950)) if of_files else (("zeros", 253 * MIB),)
    archive = _archive(tmp_path / "big.tar", _layer(*files), plain_size=files[0][1])
    with archive.open("rb") as file, pytest.raises(Transient, match=_SAID):
        await components.images.import_archive(file, "big.tar")
    assert min(_free(disk)) > 0.75 * OF_IMAGES.share and components.images.list() == []
    for gone in components.layers.trash.directory.iterdir():
        shutil.rmtree(gone)
    small = _archive(tmp_path / "small.tar", _layer(("file", 1 * MIB)), plain_size=1 * MIB)
    with small.open("rb") as file:
        (image,) = await components.images.import_archive(file, "small.tar")
    assert len(image.layers) == 1


async def test_archive_that_would_fill_the_disk_is_refused(tmp_path: Path, disk: Path) -> None:
    components = await _open(disk)
    _fill(disk, free=10 * MIB)
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        info = tarfile.TarInfo("layer.tar")
        info.size = 9 * MIB
        archive.addfile(info, io.BytesIO(os.urandom(9 * MIB)))
    with path.open("rb") as file, pytest.raises(Transient, match=_SAID):
        await components.images.import_archive(file, "a.tar")
    assert _free(disk)[0] > 0.035

"""What unpacking does with the disk: holes stay holes, a full disk is said and cleaned, what is used is known."""

import gzip
import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid, Transient
from pykubelet.criserver.unpack.limits import Limits
from pykubelet.linux.mounts import mount, unmount
from tests.unit.criserver.storage.test_layers import World, entry, folder, hard, link, tar

pytestmark = pytest.mark.root


def gnu_tar(folder: Path, *options: str) -> bytes:
    command = ["tar", "-S", *options, "-c", "."]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True).stdout


@pytest.mark.skipif(shutil.which("tar") is None, reason="needs GNU tar: apt-get install tar")
@pytest.mark.parametrize("version", ["gnu", "0.0", "0.1", "1.0"])
async def test_sparse_files_keep_their_holes(tmp_path: Path, version: str) -> None:
    source = tmp_path / "source"
    source.mkdir()
    with (source / "disk.img").open("wb") as file:
        for number in range(30):
            file.seek(number << 20)
            file.write(os.urandom(4096))
        file.truncate(40 << 20)
    (source / "holes").touch()
    os.truncate(source / "holes", 5 << 20)
    kind = ["--format=gnu"] if version == "gnu" else ["--format=posix", f"--sparse-version={version}"]
    packed = gnu_tar(source, *kind)
    (tmp_path / "world").mkdir()
    world = World(tmp_path / "world")
    world.add(packed)
    meta = await world.layers.ensure(world.stack)
    made = world.layers.folder / str(meta.folder)
    for name in ("disk.img", "holes"):
        assert (made / name).read_bytes() == (source / name).read_bytes()
    assert (made / "disk.img").stat().st_blocks * 512 <= 30 * 8192 and (made / "holes").stat().st_blocks == 0
    assert 30 * 4096 <= meta.bytes <= 30 * 4096 + 16384


async def test_a_full_disk_is_said_and_cleaned_up(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount("tmpfs", str(small), "tmpfs", data="size=3m")
    try:
        world = World(small)
        plain = tar([folder("d"), entry("d/a", data=bytes(10 << 20))])
        world.add(plain, gzip.compress(plain))
        with pytest.raises(Transient, match=r"cannot unpack layer sha256:.*No space left on device"):
            await world.layers.ensure(world.stack)
        assert [path.name for path in world.layers.folder.iterdir()] == ["0"]
    finally:
        unmount(str(small), lazy=True)


async def test_inodes_run_out(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount("tmpfs", str(small), "tmpfs", data="nr_inodes=200")
    try:
        world = World(small)
        world.add(tar([entry(f"f{number}") for number in range(300)]))
        with pytest.raises(Transient, match="No space left on device"):
            await world.layers.ensure(world.stack)
        assert [path.name for path in world.layers.folder.iterdir()] == ["0"]
    finally:
        unmount(str(small), lazy=True)


async def test_of_what_comes_twice_the_last_counts(tmp_path: Path) -> None:
    world = World(tmp_path)
    root = await world.unpack(
        [
            entry("file", data=b"one", mode=0o4755),
            entry("file", data=b"two"),
            folder("was-folder"),
            entry("was-folder/in", data=b"x"),
            entry("was-folder", data=b"now a file"),
            entry("was-file", data=b"x"),
            folder("was-file"),
            entry("was-file/in", data=b"y"),
            link("was-link", "file"),
            entry("was-link", data=b"own"),
            hard("same", "file"),
            entry("same", data=b"other"),
            folder("kept", 0o700),
            entry("kept/in"),
            folder("kept", 0o711),
        ]
    )
    assert (root / "file").read_bytes() == b"two" and (root / "file").stat().st_mode & 0o7777 == 0o644
    assert (root / "was-folder").read_bytes() == b"now a file" and (root / "was-file/in").read_bytes() == b"y"
    assert (root / "was-link").read_bytes() == b"own" and (root / "same").read_bytes() == b"other"
    assert (root / "kept").stat().st_mode & 0o7777 == 0o711 and (root / "kept/in").exists()


async def test_what_layers_take_is_counted_when_they_are_made(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.unpack([folder("d"), entry("d/a", data=bytes(1)), entry("d/b", data=bytes(5000)), link("l", "d")])
    assert world.layers.used() == (4096 + 4096 + 8192, 4)
    await world.layers.prune(())
    assert world.layers.used() == (0, 0)


async def test_a_window_larger_than_any_honest_one_is_refused(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    plain = tar([entry("a", data=bytes(1000))])
    parameters = zstandard.ZstdCompressionParameters.from_level(19, window_log=30)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()  # of unknown size: all the window
    packed = packer.compress(plain) + packer.flush()
    world = World(tmp_path)
    world.add(plain, packed)
    with pytest.raises(Invalid, match="zstd"):
        await world.layers.ensure(world.stack)


async def test_entries_without_an_end(tmp_path: Path) -> None:
    """A million entries of nothing, in a blob that is small when compressed."""
    world = World(tmp_path, Limits(max_entries=2000))
    header = io.BytesIO()
    with tarfile.open(fileobj=header, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("same"))
    world.add(header.getvalue()[:512] * 100_000)
    with pytest.raises(Invalid, match="more than 2000 entries"):
        await world.layers.ensure(world.stack)

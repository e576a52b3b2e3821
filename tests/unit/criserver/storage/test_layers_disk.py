"""Unpacking keeps holes in files, reports a full disk and cleans up, and knows the disk usage of layers."""

import gzip
import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid, Transient
from pykubelet.base.units import Bytes
from pykubelet.criserver.unpack.limits import Limits
from pykubelet.linux.filesystems.fsusage import tree_usage
from pykubelet.linux.filesystems.mounts import mount, unmount
from tests.unit.criserver.storage.world import ACL, Entries, World, directory, entry, hard, link, tar

pytestmark = pytest.mark.root


def gnu_tar(directory: Path, *options: str) -> bytes:
    command = ["tar", "-S", *options, "-c", "."]
    return subprocess.run(command, cwd=directory, check=True, capture_output=True).stdout


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
    made = world.layers.directory / str(meta.directory)
    for name in ("disk.img", "holes"):
        assert (made / name).read_bytes() == (source / name).read_bytes()
    assert (made / "disk.img").stat().st_blocks * 512 <= 30 * 8192 and (made / "holes").stat().st_blocks == 0
    # ext4 adds a block for the map of the extents when it writes the data back, at any time.
    assert tree_usage(str(made)).bytes - 4096 <= meta.bytes <= 30 * 4096 + 24 * 1024


async def test_a_full_disk_is_said_and_cleaned_up(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount("tmpfs", str(small), "tmpfs", data="size=3m")
    try:
        world = World(small)
        plain = tar([directory("d"), entry("d/a", data=bytes(10 << 20))])
        world.add(plain, gzip.compress(plain))
        with pytest.raises(Transient, match=r"cannot unpack layer sha256:.*No space left on device"):
            await world.layers.ensure(world.stack)
        assert [path.name for path in world.layers.directory.iterdir()] == ["0"]
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
        assert [path.name for path in world.layers.directory.iterdir()] == ["0"]
    finally:
        unmount(str(small), lazy=True)


async def test_of_what_comes_twice_the_last_counts(tmp_path: Path) -> None:
    world = World(tmp_path)
    root = await world.unpack(
        [
            entry("file", data=b"one", mode=0o4755),
            entry("file", data=b"two"),
            directory("was-directory"),
            entry("was-directory/in", data=b"x"),
            entry("was-directory", data=b"now a file"),
            entry("was-file", data=b"x"),
            directory("was-file"),
            entry("was-file/in", data=b"y"),
            link("was-link", "file"),
            entry("was-link", data=b"own"),
            hard("same", "file"),
            entry("same", data=b"other"),
            directory("kept", 0o700),
            entry("kept/in"),
            directory("kept", 0o711),
        ]
    )
    assert (root / "file").read_bytes() == b"two" and (root / "file").stat().st_mode & 0o7777 == 0o644
    assert (root / "was-directory").read_bytes() == b"now a file" and (root / "was-file/in").read_bytes() == b"y"
    assert (root / "was-link").read_bytes() == b"own" and (root / "same").read_bytes() == b"other"
    assert (root / "kept").stat().st_mode & 0o7777 == 0o711 and (root / "kept/in").exists()


async def test_disk_usage_of_layers_is_counted_at_unpack(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.unpack([directory("d"), entry("d/a", data=bytes(1)), entry("d/b", data=bytes(5000)), link("l", "d")])
    names = 4 * 2 * (1 + 16)
    assert world.layers.used() == (4096 + 4096 + 4096 + 8192 + names, 5)
    await world.layers.prune(())
    assert world.layers.used() == (0, 0)


async def test_hard_link_to_lower_file_is_charged_with_the_copy_it_makes(tmp_path: Path) -> None:
    """overlayfs copies the whole file up for it, and the directories above it."""
    world = World(tmp_path)
    holes = entry("in/big", data=bytes(8 << 20))
    await world.unpack([directory("in"), holes, entry("in/small", data=b"x"), directory("deep"), directory("deep/er")])
    links = [hard("a", "in/big"), hard("b", "in/big"), hard("deep/er/c", "in/small"), entry("deep/er/.wh.none")]
    upper = await world.unpack(links)
    meta, real = world.layers.get(world.stack[-1].chain_id), tree_usage(str(upper))
    assert meta is not None and 8 << 20 <= real.bytes <= meta.bytes < (8 << 20) + (128 << 10), "copied up once"
    assert real.inodes <= meta.inodes
    assert (upper / "a").stat().st_size == 8 << 20


_EMPTY = 3000
"""Empty files that would be out of proportion if each took a block."""


@pytest.mark.parametrize(
    "upper",
    [
        pytest.param([entry(f"d/{number:04}") for number in range(_EMPTY)], id="replaced"),
        pytest.param([entry(f"d/new-{number:04}") for number in range(_EMPTY)], id="added"),
        pytest.param([entry(f"d/.wh.{number:04}") for number in range(_EMPTY)], id="removed"),
        pytest.param(
            [each for number in range(_EMPTY) for each in (entry(f"d/.wh.{number:04}"), entry(f"d/{number:04}"))],
            id="removed and made again",
        ),
        pytest.param([entry("d/.wh..wh..opq"), *(entry(f"d/{number:04}") for number in range(_EMPTY))], id="opaque"),
    ],
)
async def test_empty_files_over_those_of_lower_layers_are_unpacked_and_charged(tmp_path: Path, upper: Entries) -> None:
    world = World(tmp_path, Limits(ratio_from=Bytes(_EMPTY * 4096)))
    lower = tar([directory("d"), *(entry(f"d/{number:04}", data=b"old") for number in range(_EMPTY))])
    world.add(lower)
    await world.layers.ensure(world.stack)
    world.add(plain := tar(upper), gzip.compress(plain))
    meta = await world.layers.ensure(world.stack)
    used = tree_usage(str(world.layers.directory / str(meta.directory)))
    assert meta.bytes >= used.bytes and meta.inodes >= used.inodes
    try:
        shown = {path.name for path in (await world.mount() / "d").iterdir() if not path.stat().st_size}
    finally:
        await world.snapshots.remove_rootfs("c")
    assert shown == {info.name.removeprefix("d/") for info, _ in upper if ".wh." not in info.name}


async def test_hard_links_to_lower_files_out_of_proportion_are_refused(tmp_path: Path) -> None:
    """A few hundred bytes of archive would fill the disk with copies of what lies below."""
    world = World(tmp_path, Limits(ratio_from=Bytes(8 << 20), max_ratio=2))
    for part in range(4):
        await world.unpack([entry(f"{part}-{number}", data=os.urandom(1 << 20)) for number in range(4)])
    world.add(tar([hard(f"c{part}-{number}", f"{part}-{number}") for part in range(4) for number in range(4)]))
    with pytest.raises(Invalid, match=r"more than 8388608 bytes on the disk"):
        await world.layers.ensure(world.stack)
    assert len(list(world.layers.directory.iterdir())) == 5, "the refused layer leaves nothing"


async def test_sparse_file_of_many_small_parts_is_charged_by_blocks(tmp_path: Path) -> None:
    world = World(tmp_path)
    source = tmp_path / "source"
    source.mkdir()
    with (source / "islands").open("wb") as file:
        for number in range(2000):
            file.seek(number * 16384 + 4095)
            file.write(b"xx")
    packed = gnu_tar(source, "--format=gnu")
    shutil.rmtree(source)
    world.add(packed)
    meta = await world.layers.ensure(world.stack)
    assert 2000 * 8192 <= tree_usage(str(world.layers.directory / str(meta.directory))).bytes <= meta.bytes


async def test_layer_of_more_files_than_allowed_is_refused_whether_named_or_not(tmp_path: Path) -> None:
    """Directories that only the names of others mention take inodes too."""
    world = World(tmp_path, Limits(max_inodes=1000))
    world.add(tar([entry("/".join(f"{number}{part}" for part in range(100))) for number in range(11)]))
    with pytest.raises(Invalid, match="more than 1000 files"):
        await world.layers.ensure(world.stack)


async def test_default_acl_of_a_directory_is_not_passed_on_to_what_lies_in_it(tmp_path: Path) -> None:
    given = {"SCHILY.xattr.system.posix_acl_default": ACL.decode(errors="surrogateescape")}
    world = World(tmp_path)
    attributed = entry("d", tarfile.DIRTYPE, pax_headers=given)
    root = await world.unpack([attributed, entry("d/file"), directory("d/in")])
    assert os.getxattr(root / "d", "system.posix_acl_default") == ACL
    assert os.listxattr(root / "d/file") == os.listxattr(root / "d/in") == []


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

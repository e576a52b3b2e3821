"""The blob of an artifact becomes one file in the layer's directory, and nothing outside."""

import errno
import hashlib
import os
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.base.units import Bytes
from pykubelet.criserver.images.image_types import Layer
from pykubelet.criserver.storage import Layers
from pykubelet.criserver.unpack.limits import Limits

pytestmark = pytest.mark.root


def _layers(root: Path, limits: Limits | None = None) -> Layers:
    (root / "blobs").mkdir(parents=True)
    layers = Layers(root=root / "storage", blob=lambda digest: root / "blobs" / digest.partition(":")[2], limits=limits)
    layers.load()
    return layers


def _layer(root: Path, path: str, data: bytes, algorithm: str = "sha256") -> Layer:
    hexadecimal = hashlib.new(algorithm, data).hexdigest()
    (root / "blobs" / hexadecimal).write_bytes(data)
    digest = f"{algorithm}:{hexadecimal}"
    return Layer(digest, len(data), "text/plain", digest, f"sha256:{hashlib.sha256(path.encode()).hexdigest()}", path)


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
async def test_blob_becomes_the_file_of_its_name(tmp_path: Path, algorithm: str) -> None:
    layers, data = _layers(tmp_path), bytes(range(256)) * 9000
    meta = await layers.ensure([_layer(tmp_path, "models/größe 1/weights.bin", data, algorithm)])
    top = layers.directory / str(meta.directory)
    file = top / "models/größe 1/weights.bin"
    assert file.read_bytes() == data
    facts = file.stat()
    assert (facts.st_mode & 0o7777, facts.st_uid, facts.st_gid, facts.st_nlink) == (0o644, 0, 0, 2)
    assert (top / "models").stat().st_mode & 0o7777 == 0o755
    assert meta.bytes >= len(data) and meta.inodes == 4


async def test_blob_and_its_file_take_their_size_once(tmp_path: Path) -> None:
    layers, data = _layers(tmp_path), bytes(range(256)) * 900
    one, two = _layer(tmp_path, "a/one", data), _layer(tmp_path, "two", data)
    blob = tmp_path / "blobs" / one.digest[7:]
    for layer in (one, two):
        meta = await layers.ensure([layer])
        assert blob.samefile(layers.directory / str(meta.directory) / layer.file)
        assert blob.read_bytes() == data
    assert not list((tmp_path / "storage" / "merge").iterdir())
    blob.unlink()
    await layers.prune([two.chain_id])
    meta = await layers.ensure([two])
    assert (layers.directory / str(meta.directory) / "two").read_bytes() == data, "each name has the content"


async def test_blob_on_another_file_system_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(source: Path, target: Path, *, follow_symlinks: bool) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", link)
    layers, layer = _layers(tmp_path), _layer(tmp_path, "a", b"data")
    meta = await layers.ensure([layer])
    file, blob = layers.directory / str(meta.directory) / "a", tmp_path / "blobs" / layer.digest[7:]
    assert file.read_bytes() == blob.read_bytes() == b"data"
    assert not file.samefile(blob)


async def test_compressed_blob_stays_as_it_is(tmp_path: Path) -> None:
    """Only image layers are uncompressed: a file has the digest that its publisher names."""
    layers, data = _layers(tmp_path), b"\x1f\x8b not really gzip"
    meta = await layers.ensure([_layer(tmp_path, "data.tar.gz", data)])
    assert (layers.directory / str(meta.directory) / "data.tar.gz").read_bytes() == data


async def test_blob_that_was_changed_on_the_disk_is_refused(tmp_path: Path) -> None:
    layers, layer = _layers(tmp_path), _layer(tmp_path, "a", b"good")
    (tmp_path / "blobs" / layer.digest[7:]).write_bytes(b"evil")
    with pytest.raises(Invalid, match="its image says"):
        await layers.ensure([layer])
    assert [path.name for path in layers.directory.iterdir()] == ["0"]


@pytest.mark.parametrize("path", ["../outside", "/etc/x", "a/../../outside", "a//b", "n" * 256, "a/" * 4000 + "a"])
async def test_record_with_a_hostile_name_changes_nothing_outside(tmp_path: Path, path: str) -> None:
    """The names were checked before; a damaged index does not get past the worker either."""
    layers = _layers(tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(Exception, match="layer"):
        await layers.ensure([_layer(tmp_path, path, b"x")])
    assert sorted(tmp_path.iterdir()) == before
    assert [each.name for each in layers.directory.iterdir()] == ["0"]


async def test_blob_beyond_the_limit_of_a_layer_is_refused(tmp_path: Path) -> None:
    layers = _layers(tmp_path, Limits(max_bytes=Bytes(1 << 20)))
    with pytest.raises(Invalid, match="takes more than"):
        await layers.ensure([_layer(tmp_path, "a", bytes(2 << 20))])

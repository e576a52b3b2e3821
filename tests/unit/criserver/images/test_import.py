"""Archives in and out, and root file systems made of them, for real (chroot and overlay need root)."""

import asyncio
import gzip
import io
import json
import os
import tarfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.criserver.images import Phase, Progress
from pykubelet.criserver.storage import trash
from pykubelet.criserver.storage.plan.pace import CALM
from pykubelet.linux.filesystems.mountinfo import is_mount_point
from pykubelet.testing.ociimage import ImageSpec, pack
from pykubelet.testing.wait import until
from tests.unit.criserver.images.stores import import_file, open_stores

pytestmark = pytest.mark.root

NAME = "localhost/demo/busybox:1"
SPEC = ImageSpec(
    NAME, ("/bin/sh", "-c", "true"), environment=("A=1",), user="app", volumes=("/data",), files={"/etc/motd": b"hello"}
)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "image.tar"
    pack(SPEC, path, os.uname().machine)
    return path


async def test_an_oci_archive_becomes_an_image(tmp_path: Path, archive: Path) -> None:
    stores = open_stores(tmp_path / "root")
    seen: list[Progress] = []
    (image,) = await import_file(stores, archive, on_progress=seen.append)
    assert image.tags == (NAME,)
    assert image.id.startswith("sha256:")
    assert image.config.user == "app" and image.config.volumes == ("/data",) and image.config.env == ("A=1",)
    assert [step.phase for step in seen] == [Phase.UNPACKING, Phase.DONE]
    for name in (NAME, image.id, image.id[7:], image.id[7:19], image.digests[0]):
        assert stores.images.status(name) == image
    assert stores.images.status("localhost/demo/busybox:2") is None
    assert stores.images.list() == [image]
    # index.json and oci-layout are not blobs of an image, and do not stay.
    assert stores.content.digests() == image.blobs
    info = await stores.images.fs_info()
    assert info.used_bytes > image.size and info.inodes_used > 250


@pytest.mark.parametrize(
    "name", ["org.criu.checkpoint.container.name", "io.kubernetes.cri-o.annotations.checkpoint.name"]
)
async def test_image_of_a_checkpoint_is_known_by_the_annotation_of_its_manifest(tmp_path: Path, name: str) -> None:
    path = tmp_path / "image.tar"
    pack(replace(SPEC, annotations={name: "counter"}, bare=True), path, os.uname().machine)
    (image,) = await import_file(open_stores(tmp_path / "root"), path)
    assert image.checkpoint == "counter"
    pack(replace(SPEC, annotations={"org.criu.checkpoint.pod.name": "pod"}), path, os.uname().machine)
    (other,) = await import_file(open_stores(tmp_path / "root"), path)
    assert other.checkpoint == ""


async def test_a_rootfs_is_mounted_written_to_and_removed(tmp_path: Path, archive: Path) -> None:
    stores = open_stores(tmp_path / "root")
    (image,) = await import_file(stores, archive)
    rootfs = await stores.snapshots.prepare_rootfs(image, "c1")
    try:
        assert (rootfs / "etc/motd").read_bytes() == b"hello"
        assert (rootfs / "tmp").stat().st_mode & 0o7777 == 0o1777
        (rootfs / "etc/motd").write_bytes(b"x" * 100_000)
        assert (used := await stores.snapshots.usage("c1")) is not None and used.bytes >= 100_000
        assert await stores.snapshots.prepare_rootfs(image, "c1") == rootfs
        assert (rootfs / "etc/motd").stat().st_size == 100_000, "asking again must not wipe it"
        other = await stores.snapshots.prepare_rootfs(image, "c2")
        assert (other / "etc/motd").read_bytes() == b"hello"
    finally:
        await stores.snapshots.remove_rootfs("c1")
        await stores.snapshots.remove_rootfs("c2")
    assert not rootfs.exists()
    await stores.snapshots.remove_rootfs("c1")
    with pytest.raises(NotFound):
        await stores.snapshots.usage("c1")


async def test_layers_stay_while_a_container_uses_them(tmp_path: Path, archive: Path) -> None:
    stores = open_stores(tmp_path / "root")
    (image,) = await import_file(stores, archive)
    rootfs = await stores.snapshots.prepare_rootfs(image, "c1")
    try:
        await stores.images.remove(NAME)
        await stores.images.remove(NAME)
        assert stores.images.list() == [] and stores.content.digests() == set()
        assert stores.layers.get(image.layers[0]) is not None
        assert (rootfs / "etc/motd").read_bytes() == b"hello"
    finally:
        await stores.snapshots.remove_rootfs("c1")
    assert stores.layers.get(image.layers[0]) is None
    assert [path.name for path in (tmp_path / "root/storage/layers").iterdir()] == ["0"]


async def test_files_of_an_image_are_deleted_when_its_removal_returns(
    tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kubelet that is short of space measures it then, and would evict a pod (upstream's ImageGCNoEviction)."""
    monkeypatch.setattr(trash, "_pace", lambda path: CALM)
    monkeypatch.setattr(trash, "_SMALL", 0)
    stores = open_stores(tmp_path / "root")
    await import_file(stores, archive)
    opened = stores.layers.trash
    assert list((tmp_path / "root/storage/layers").iterdir()) != []
    task = asyncio.create_task(opened.run(), name="trash")
    try:
        await until(lambda: opened._round)
        await stores.images.remove(NAME)
        assert list(opened.directory.iterdir()) == []
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_everything_is_found_again_after_a_crash(tmp_path: Path, archive: Path) -> None:
    stores = open_stores(tmp_path / "root")
    (image,) = await import_file(stores, archive)
    await stores.snapshots.prepare_rootfs(image, "keep")
    gone = await stores.snapshots.prepare_rootfs(image, "gone")
    storage = tmp_path / "root/storage"
    (storage / "layers/99").mkdir()
    (storage / "layers/99/half").write_text("unpacked")
    (storage / "containers/half").mkdir()
    (tmp_path / "root/images/blobs/sha256" / ("0" * 64)).write_text("no image has this")

    again = open_stores(tmp_path / "root")
    try:
        assert await again.snapshots.recover({"keep"}) == {"keep"}
        await again.images.recover()
        assert again.images.list() == [image]
        assert not gone.exists() and not (storage / "layers/99").exists() and not (storage / "containers/half").exists()
        assert again.content.digests() - image.blobs == {f"sha256:{'0' * 64}"}, "a pull may have fetched it"
        assert is_mount_point(storage / "containers/keep/rootfs")
    finally:
        await again.snapshots.remove_rootfs("keep")


@pytest.mark.parametrize("damage", [b"", b"{", bytes(4000), b"\xff\xfe", b"[]", b'{"version": 1, "images": [{}]}'])
async def test_a_damaged_index_costs_no_container_its_root(tmp_path: Path, archive: Path, damage: bytes) -> None:
    """The images are unknown then, the file is kept, and they can be had again."""
    stores = open_stores(tmp_path / "root")
    (image,) = await import_file(stores, archive)
    rootfs = await stores.snapshots.prepare_rootfs(image, "c1")
    index = tmp_path / "root/images/index.json"
    index.write_bytes(damage)
    again = open_stores(tmp_path / "root")
    try:
        assert await again.snapshots.recover({"c1"}) == {"c1"}
        await again.images.recover()
        assert again.images.list() == [] and again.content.digests() == image.blobs, "to be pulled again"
        whole, single = (tmp_path / f"root/images/index.json.{end}" for end in ("aside-1", "quarantine"))
        assert (single.read_bytes() == b"[{}]") if b"images" in damage else (whole.read_bytes() == damage)
        assert (rootfs / "etc/motd").read_bytes() == b"hello"
        assert [one.id for one in await import_file(again, archive)] == [image.id]
    finally:
        await again.snapshots.remove_rootfs("c1")


async def test_an_image_that_lost_a_blob_is_forgotten(tmp_path: Path, archive: Path) -> None:
    stores = open_stores(tmp_path / "root")
    (image,) = await import_file(stores, archive)
    stores.content.remove(image.stack[0].digest)
    again = open_stores(tmp_path / "root")
    await again.images.recover()
    assert again.images.list() == [] and again.content.digests() == set()
    assert again.layers.get(image.layers[0]) is None


async def test_an_export_can_be_imported(tmp_path: Path, archive: Path) -> None:
    stores = open_stores(tmp_path / "root")
    (image,) = await import_file(stores, archive)
    (tmp_path / "out.tar").write_bytes(b"".join([piece async for piece in stores.images.export_archive([NAME])]))
    other = open_stores(tmp_path / "other")
    assert await import_file(other, tmp_path / "out.tar") == [image]
    with pytest.raises(NotFound):
        _ = [piece async for piece in stores.images.export_archive([NAME, "nothing/here:1"])]


async def test_export_of_a_layer_that_fills_its_last_block_is_whole(tmp_path: Path, archive: Path) -> None:
    """Layers that are not compressed do; after them the archive ended, without an error."""
    save_for_docker(archive, tmp_path / "plain.tar")
    stores = open_stores(tmp_path / "root")
    (image,) = await import_file(stores, tmp_path / "plain.tar")
    assert image.stack[0].size % tarfile.BLOCKSIZE == 0
    pieces = [piece async for piece in stores.images.export_archive([image.id])]
    assert all(pieces) and pieces[-1] == bytes(2 * tarfile.BLOCKSIZE), "the end of an archive"
    (tmp_path / "out.tar").write_bytes(b"".join(pieces))
    with tarfile.open(tmp_path / "out.tar") as exported:
        blobs = {name.rpartition("/")[2] for name in exported.getnames() if name.startswith("blobs/")}
    assert blobs == {digest.partition(":")[2] for digest in image.blobs}


def save_for_docker(source: Path, target: Path) -> None:
    """Write an archive as an old ``docker save`` did: layers and configuration by free names, one layer a link."""
    with tarfile.open(source) as archive:
        blobs = {name: read(archive, name) for name in archive.getnames()}
    top = json.loads(blobs["index.json"])["manifests"][0]["digest"]
    manifest = json.loads(blobs[f"blobs/sha256/{top[7:]}"])
    config = blobs["blobs/sha256/" + manifest["config"]["digest"][7:]]
    layer = gzip.decompress(blobs["blobs/sha256/" + manifest["layers"][0]["digest"][7:]])
    document = [{"Config": "abc.json", "RepoTags": [NAME], "Layers": ["two/layer.tar"]}]
    files = {"abc.json": config, "one/layer.tar": layer, "manifest.json": json.dumps(document).encode()}
    with tarfile.open(target, "w:gz" if target.suffix == ".gz" else "w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("two/layer.tar")
        link.type, link.linkname = tarfile.SYMTYPE, "../one/layer.tar"
        archive.addfile(link)


def read(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None
    return file.read()


@pytest.mark.parametrize("name", ["docker.tar", "docker.tar.gz"])
async def test_a_docker_archive_is_read(tmp_path: Path, archive: Path, name: str) -> None:
    save_for_docker(archive, tmp_path / name)
    stores = open_stores(tmp_path / "root")
    (image,) = await import_file(stores, tmp_path / name)
    assert image.tags == (NAME,) and image.digests == ()
    assert image.config.cmd == ("/bin/sh", "-c", "true")
    assert stores.content.digests() == image.blobs


async def test_a_tag_moves_to_the_newer_image(tmp_path: Path, archive: Path) -> None:
    stores = open_stores(tmp_path / "root", pinned=frozenset({NAME}))
    (old,) = await import_file(stores, archive)
    newer = tmp_path / "newer.tar"
    pack(ImageSpec(NAME, files={"/new": b"1"}), newer, os.uname().machine)
    (new,) = await import_file(stores, newer)
    assert stores.images.status(NAME) == new and new.pinned
    kept = stores.images.status(old.id)
    assert kept is not None and kept.tags == () and not kept.pinned
    await stores.images.remove(NAME)
    assert [image.id for image in stores.images.list()] == [old.id]


@pytest.mark.parametrize("content", [b"", b"no tar at all" * 100, bytes(10240)], ids=["empty", "text", "zeros"])
async def test_import_of_an_invalid_archive_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    stores = open_stores(tmp_path / "root")
    path = tmp_path / "bad.tar"
    path.write_bytes(content)
    with pytest.raises(Invalid, match=r"bad\.tar"):
        await import_file(stores, path)

"""Archives of layers, and layers on a directory with files outside that must never change."""

import hashlib
import io
import struct
import tarfile
from pathlib import Path

from pykubelet.criserver.images.image_types import ImageConfig, ImageRecord, Layer
from pykubelet.criserver.storage import Layers, Snapshots
from pykubelet.criserver.unpack.limits import Limits

Entries = list[tuple[tarfile.TarInfo, bytes]]
ACL = struct.pack("<I" + "HHI" * 5, 2, 1, 7, 2**32 - 1, 2, 7, 1000, 4, 5, 2**32 - 1, 16, 7, 2**32 - 1, 32, 5, 2**32 - 1)
"""The value of an attribute ``system.posix_acl_default`` that names a user."""


def entry(
    name: str, kind: bytes = tarfile.REGTYPE, data: bytes = b"", **fields: object
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode = kind, len(data), 0o755 if kind == tarfile.DIRTYPE else 0o644
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, tarfile.SYMTYPE, linkname=target)


def hard(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, tarfile.LNKTYPE, linkname=target)


def directory(name: str, mode: int = 0o755) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, tarfile.DIRTYPE, mode=mode)


def tar(entries: Entries, kind: int = tarfile.PAX_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=kind) as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


class World:
    """Layers on a directory, with files outside that must never change."""

    def __init__(self, root: Path, limits: Limits | None = None) -> None:
        self.root = root
        self.blobs = root / "blobs"
        self.blobs.mkdir()
        self.outside = root / "outside"
        self.outside.write_text("precious")
        self.layers = Layers(root=root / "storage", blob=lambda digest: self.blobs / digest[7:], limits=limits)
        self.snapshots = Snapshots(root / "storage", self.layers)
        self.snapshots.load()
        self.stack: list[Layer] = []

    def add(self, plain: bytes, packed: bytes | None = None) -> None:
        blob = plain if packed is None else packed
        digest, diff_id = (f"sha256:{hashlib.sha256(data).hexdigest()}" for data in (blob, plain))
        (self.blobs / digest[7:]).write_bytes(blob)
        below = self.stack[-1].chain_id if self.stack else ""
        chain = f"sha256:{hashlib.sha256(f'{below} {diff_id}'.encode()).hexdigest()}" if below else diff_id
        self.stack.append(Layer(digest, len(blob), "", diff_id, chain))

    async def unpack(self, entries: Entries) -> Path:
        self.add(tar(entries))
        meta = await self.layers.ensure(self.stack)
        return self.layers.directory / str(meta.directory)

    async def mount(self) -> Path:
        image = ImageRecord("sha256:x", (), (), 0, ImageConfig(), tuple(self.stack), "")
        return await self.snapshots.prepare_rootfs(image, "c")

    def assert_unharmed(self) -> None:
        assert self.outside.read_text() == "precious"
        assert self.outside.stat().st_nlink == 1 and self.outside.stat().st_mode & 0o777 == 0o644
        known = {"blobs", "outside", "storage"}
        assert {path.name for path in self.root.iterdir()} == known
        assert {path.name for path in (self.root / "storage").iterdir()} == {
            "layers",
            "meta",
            "merge",
            "containers",
            "trash",
        }
        assert list((self.root / "storage/merge").iterdir()) == []


def directory_at(name: str, mtime: int) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, tarfile.DIRTYPE, mtime=mtime)

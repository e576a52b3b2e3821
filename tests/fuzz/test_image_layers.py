# ruff: noqa: PTH208
# Names may be invalid UTF-8.
"""Arbitrary layers with the real extractor: nothing outside the directory changes, and all disk usage is charged."""

import asyncio
import io
import os
import random
import stat
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pykubelet.base import proc
from pykubelet.base.errors import PykubeletError
from pykubelet.base.units import Bytes
from pykubelet.criserver.images.image_types import Layer
from pykubelet.criserver.storage import Layers
from pykubelet.criserver.storage.layers import EMPTY
from pykubelet.criserver.storage.remove import remove_tree
from pykubelet.criserver.unpack.limits import Limits
from pykubelet.linux.filesystems.fsusage import tree_usage
from tests.fuzz.layer_workers import LayerWorkers, layer_workers

pytestmark = [pytest.mark.root, pytest.mark.timeout(1800)]

_NAMES = (
    "a",
    "b",
    "c",
    "d e",
    "é",
    "\udcff\udcfe",
    ".wh.a",
    ".wh.b",
    ".wh..wh..opq",
    ".wh..wh.plnk",
    ".wh.",
    "n" * 120,
)
_ODD = ("..", ".", "", "/", "outside", "n" * 256)
_LIMITS = Limits(max_bytes=Bytes(8 << 20), max_entries=500, max_inodes=3000)
_KINDS = (
    tarfile.REGTYPE,
    tarfile.DIRTYPE,
    tarfile.SYMTYPE,
    tarfile.LNKTYPE,
    tarfile.CHRTYPE,
    tarfile.BLKTYPE,
    tarfile.FIFOTYPE,
    tarfile.CONTTYPE,
)

_XATTRS = (
    "user.a",
    "user.overlay.opaque",
    "user.overlay.redirect",
    "trusted.overlay.opaque",
    "trusted.overlay.redirect",
    "security.capability",
    "system.posix_acl_default",
    "security.selinux",
)
_VALUES = ("", "y", "/b", "x" * 3000, "\x01\x00\x00\x02\x00\x00\x00\x00")


class Maker:
    """Generates random tar streams; drawing each entry from hypothesis would take most of the time."""

    def __init__(self, seed: int) -> None:
        self._lots = random.Random(seed)

    def archive(self) -> bytes:
        """Entries of all types in any order, some duplicated; possibly truncated or damaged."""
        lots = self._lots
        found = [self._entry() for _ in range(lots.randint(1, 14))]
        found += lots.choices(found, k=lots.choice((0, 0, 1, 3)))
        buffer = io.BytesIO()
        form = lots.choice((tarfile.PAX_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT))
        with tarfile.open(fileobj=buffer, mode="w", format=form, errors="surrogateescape") as archive:
            for info, data in found:
                with suppress(ValueError):  # a name or a number that this format cannot represent
                    archive.addfile(info, io.BytesIO(data))
        whole = buffer.getvalue()
        at = lots.randrange(len(whole))
        match lots.randrange(12):
            case 0:
                return whole[:at]
            case 1:
                return whole[:at] + lots.randbytes(lots.randint(1, 8)) + whole[at + 1 :]
        return whole

    def _name(self) -> str:
        lots = self._lots
        parts = [lots.choice(_NAMES if lots.random() < 0.97 else _ODD) for _ in range(lots.choice((1, 1, 2, 2, 3, 5)))]
        return lots.choice(("", "", "", "", "/", "./", "../" if lots.random() < 0.2 else "")) + "/".join(parts)

    def _entry(self) -> tuple[tarfile.TarInfo, bytes]:
        lots = self._lots
        info = tarfile.TarInfo(self._name())
        info.type = lots.choice(_KINDS)
        info.mode = lots.choice((0, 0o644, 0o755, 0o4755, 0o1777, 0o7777))
        info.uid, info.gid = lots.choice(((0, 0), (1000, 5), (2**32 - 2, 0)))
        info.mtime = lots.choice((0, 1_700_000_000, -5, 2**35))
        info.linkname = self._name() if info.type in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
        info.devmajor, info.devminor = lots.choice(((0, 0), (1, 3), (8, 1))) if lots.random() < 0.5 else (1, 5)
        data = b""
        if info.type in (tarfile.REGTYPE, tarfile.CONTTYPE):
            data = lots.randbytes(1) * lots.choice((0, 1, 511, 4096, 4097, 40_000))
            info.size = len(data)
        if lots.random() < 0.3:
            info.pax_headers = {f"SCHILY.xattr.{lots.choice(_XATTRS)}": lots.choice(_VALUES) for _ in range(2)}
        if data and lots.random() < 0.2:
            offset = lots.choice((0, 4095, 100_000, 1 << 22))
            sparse = {"GNU.sparse.size": str(offset + len(data)), "GNU.sparse.map": f"{offset},{len(data)}"}
            info.pax_headers = {**info.pax_headers, **sparse}
        return info, data


@pytest.fixture(scope="module")
def workers() -> Iterator[LayerWorkers]:
    with layer_workers() as found:
        yield found


class Disk:
    """Layers in a directory, and a directory outside of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.blobs, self.outside = root / "blobs", root / "outside"
        for directory in (self.blobs, self.outside):
            directory.mkdir()
        (self.outside / "a").write_text("precious")
        self.layers = Layers(root=root / "storage", blob=lambda digest: self.blobs / digest[7:], limits=_LIMITS)
        self.layers.load()

    def stack(self, streams: Sequence[bytes]) -> list[Layer]:
        found: list[Layer] = []
        chain = ""
        for number, data in enumerate(streams):
            digest = f"sha256:{sha256(data).hexdigest()}"
            chain = f"sha256:{sha256(f'{chain}{number}{digest}'.encode()).hexdigest()}"
            (self.blobs / digest[7:]).write_bytes(data)
            found.append(Layer(digest, len(data), "", digest, chain))
        return found

    def seen_outside(self) -> object:
        """State that a layer must not change: everything except the directories of layers and their records."""
        storage = self.root / "storage"
        here = {path: _facts(path) for path in (self.outside, self.outside / "a", self.blobs)}
        return here, sorted(os.listdir(self.root)), sorted(os.listdir(storage)), os.listdir(storage / "merge")

    def tree(self, layer: Path) -> dict[bytes, object]:
        return dict(_walk(os.fsencode(layer)))


def _facts(path: Path | bytes) -> tuple[object, ...]:
    found = os.lstat(path)
    content = Path(os.fsdecode(path)).read_bytes() if stat.S_ISREG(found.st_mode) and found.st_size < 1 << 20 else b""
    return found.st_mode, found.st_uid, found.st_gid, found.st_nlink, found.st_mtime_ns, found.st_rdev, content


def _walk(directory: bytes) -> Iterator[tuple[bytes, object]]:
    for entry in os.scandir(directory):
        yield entry.path, _facts(entry.path)
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path)


def _steering(path: bytes) -> list[str]:
    """Attributes with a meaning for overlayfs, except those that valid layers have."""
    with suppress(OSError):
        names = os.listxattr(path, follow_symlinks=False)
        own = ("opaque", "origin", "impure", "nlink", "uuid", "upper")
        return [
            name
            for name in names
            if name.startswith("user.overlay.") or (name.startswith("trusted.overlay.") and not name.endswith(own))
        ]
    return []


async def _apply(disk: Disk, streams: Sequence[bytes]) -> None:
    stack = disk.stack(streams)
    before = disk.seen_outside()
    below: dict[bytes, object] = {}
    for count in range(1, len(stack) + 1):
        try:
            meta = await disk.layers.ensure(stack[:count])
        except PykubeletError:
            made = {str(known.directory) for each in stack if (known := disk.layers.get(each.chain_id))}
            assert set(os.listdir(disk.layers.directory)) <= {EMPTY, *made}, "a refused layer leaves nothing"
            break
        finally:
            assert disk.seen_outside() == before
        directory = disk.layers.directory / str(meta.directory)
        taken = tree_usage(str(directory))
        assert taken.bytes <= meta.bytes, "every byte is charged"
        assert taken.inodes <= meta.inodes, "every file is charged"
        found = disk.tree(directory)
        assert not [path for path in found if _steering(path)]
        assert below.items() <= disk.tree(disk.layers.directory).items(), "layers below are as they were"
        below = disk.tree(disk.layers.directory)


@settings(max_examples=settings().max_examples // 4, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**64 - 1), st.integers(1, 3))
def test_any_layers_change_nothing_outside_and_are_charged(workers: LayerWorkers, seed: int, count: int) -> None:
    maker = Maker(seed)
    streams = [maker.archive() for _ in range(count)]
    patch = pytest.MonkeyPatch()
    patch.setattr(proc, "run", workers.run)
    root = Path(mkdtemp(prefix="pykubelet-layers-"))
    try:
        asyncio.run(_apply(Disk(root), streams))
    finally:
        patch.undo()
        remove_tree(str(root))

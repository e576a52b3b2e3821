"""Unpacking: archives of one layer, with many small or few big files, into ``pykubelet criserver`` and containerd.

``images.KIND.time``: from the archive to the unpacked image; ``images.KIND.cpu``: CPU time of the runtime for it;
``images.KIND.rate``: uncompressed bytes per time. The archive is in the page cache; both write to the same disk. Each
round has different content, because a runtime reuses content that it has unpacked before.
"""

import asyncio
import hashlib
import io
import json
import os
import random
import tarfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path

from benchmarks.figures import CONTAINERD, SERVER, Figure
from benchmarks.plan import Plan
from benchmarks.usage import usage
from benchmarks.world import World
from pykubelet.base.errors import Permanent
from pykubelet.cli.client.image_client import ImageClient
from pykubelet.testing.containerd import PrivateContainerd
from pykubelet.testing.runtime import PrivateRuntime

_BYTES = 200_000_000
"""Size of a layer, uncompressed."""
_SMALL = 5_000
_BIG = 50_000_000
_DIRECTORY = 40
"""Number of files in a directory."""
_WORDS = 4_000
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


async def unpacking(made: World, plan: Plan, figures: list[Figure], say: Callable[[str], None]) -> None:
    """Take all figures ``images.…``."""
    rounds = min(plan.restarts, 5)
    for kind, size in (("small", _SMALL), ("big", _BIG)):
        say(f"images: packing {_BYTES // 10**6} MB of {kind} files")
        layer = await asyncio.to_thread(_Layer, size)
        taken: dict[str, list[tuple[float, float]]] = {SERVER: [], CONTAINERD: []}
        for number in range(rounds):
            for label, runtime in ((SERVER, made.server), (CONTAINERD, made.bare)):
                say(f"{label}: {kind} files, {number + 1} of {rounds}")
                name = f"localhost/bench/{kind}-{label[:3]}:{number}"
                archive = runtime.home / "bench-image.tar"
                await asyncio.to_thread(layer.write, archive, name)
                taken[label].append(await asyncio.to_thread(_import, runtime, archive, name))
        for label, values in taken.items():
            times = tuple(seconds for seconds, _ in values)
            figures += [
                Figure(f"images.{kind}.time", label, "ms", tuple(1e3 * one for one in times)),
                Figure(f"images.{kind}.cpu", label, "ms", tuple(1e3 * cpu for _, cpu in values)),
                Figure(f"images.{kind}.rate", label, "MB/s", tuple(_BYTES / 1e6 / one for one in times)),
            ]


def _import(runtime: PrivateRuntime, archive: Path, name: str) -> tuple[float, float]:
    """Import an image and remove it; returns seconds, and seconds of CPU time."""
    pid = runtime.pid()
    if pid is None:
        raise Permanent(f"{runtime.name} has ended; see its log")
    os.sync()
    before, begin = usage(pid).cpu_seconds, time.perf_counter()
    if isinstance(runtime, PrivateContainerd):
        runtime.ctr("images", "import", str(archive))
    else:
        with ImageClient(runtime.endpoint) as client, archive.open("rb") as file:
            client.import_archive(iter(lambda: file.read(1 << 20), b""), (), lambda _: None)
    took = time.perf_counter() - begin
    cpu = usage(pid).cpu_seconds - before
    archive.unlink()
    if isinstance(runtime, PrivateContainerd):
        runtime.ctr("images", "rm", "--sync", name)
    else:
        with ImageClient(runtime.endpoint) as client:
            client.remove(name)
    return took, cpu


class _Layer:
    """A layer of files of one size, compressed once; each archive has one more small file that makes it unique."""

    def __init__(self, size: int) -> None:
        chance = random.Random(size)
        words = [chance.randbytes(6).hex().encode() for _ in range(_WORDS)]
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for number in range(_BYTES // size):
                directory = f"usr/lib/part{number // _DIRECTORY}"
                if number % _DIRECTORY == 0:
                    entry = tarfile.TarInfo(directory)
                    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                    archive.addfile(entry)
                data = b" ".join(chance.choices(words, k=size // 13))
                _add(archive, f"{directory}/file{number}", data)
        self._plain = buffer.getvalue()
        self._packed = _gzip(self._plain)

    def write(self, target: Path, name: str) -> None:
        """Write an OCI archive of an image with that name."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as own:
            _add(own, "etc/name", name.encode())
            front = buffer.getvalue()  # without the blocks that end the stream
        diff_id = _digest(front + self._plain)
        layer = _gzip(front) + self._packed
        rootfs = {"type": "layers", "diff_ids": [diff_id]}
        machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
        config = json.dumps({"architecture": machine, "os": "linux", "config": {}, "rootfs": rootfs}).encode()
        manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": _MANIFEST,
                "config": _descriptor(_CONFIG, config),
                "layers": [_descriptor(_LAYER, layer)],
            }
        ).encode()
        entry = {**_descriptor(_MANIFEST, manifest), "annotations": {"io.containerd.image.name": name}}
        files = {
            "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
            "index.json": json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode(),
            **{f"blobs/sha256/{_digest(blob)[7:]}": blob for blob in (config, manifest, layer)},
        }
        with tarfile.open(target, "w") as archive:
            for path, data in files.items():
                _add(archive, path, data)


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def _gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(6, wbits=31)
    return packer.compress(data) + packer.flush()


def _descriptor(media_type: str, data: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": _digest(data), "size": len(data)}


def _digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()

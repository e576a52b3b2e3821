"""Unpacking: archives of one layer, with many small or few big files, into ``pykubelet criserver`` and containerd.

``images.KIND.time``: from the archive to the unpacked image; ``images.KIND.cpu``: CPU time of the runtime for it;
``images.KIND.rate``: uncompressed bytes per time. The archive is in the page cache; both write to the same disk. Each
round has different content, because a runtime reuses content that it has unpacked before.
"""

import asyncio
import json
import os
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.figures import CONTAINERD, SERVER, Figure
from benchmarks.packing import LAYER_BYTES, Template, add_file
from benchmarks.plan import Plan
from benchmarks.usage import usage
from benchmarks.world import World
from pykubelet.base.errors import Permanent
from pykubelet.cli.client.image_client import ImageClient
from pykubelet.testing.containerd import PrivateContainerd
from pykubelet.testing.runtime import PrivateRuntime

_SMALL = 5_000
_BIG = 50_000_000


async def unpacking(made: World, plan: Plan, figures: list[Figure], say: Callable[[str], None]) -> None:
    """Take all figures ``images.…``."""
    rounds = min(plan.restarts, 5)
    for kind, size in (("small", _SMALL), ("big", _BIG)):
        say(f"images: packing {LAYER_BYTES // 10**6} MB of {kind} files")
        layer = await asyncio.to_thread(Template, size)
        taken: dict[str, list[tuple[float, float]]] = {SERVER: [], CONTAINERD: []}
        for number in range(rounds):
            for label, runtime in ((SERVER, made.server), (CONTAINERD, made.bare)):
                say(f"{label}: {kind} files, {number + 1} of {rounds}")
                name = f"localhost/bench/{kind}-{label[:3]}:{number}"
                archive = runtime.home / "bench-image.tar"
                await asyncio.to_thread(_write, layer, archive, name)
                taken[label].append(await asyncio.to_thread(_import, runtime, archive, name))
        for label, values in taken.items():
            times = tuple(seconds for seconds, _ in values)
            figures += [
                Figure(f"images.{kind}.time", label, "ms", tuple(1e3 * one for one in times)),
                Figure(f"images.{kind}.cpu", label, "ms", tuple(1e3 * cpu for _, cpu in values)),
                Figure(f"images.{kind}.rate", label, "MB/s", tuple(LAYER_BYTES / 1e6 / one for one in times)),
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


def _write(template: Template, target: Path, name: str) -> None:
    """Write an OCI archive of an image with that name."""
    image = template.image(name)
    entry = {**image.manifest.descriptor, "annotations": {"io.containerd.image.name": name}}
    files = {
        "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
        "index.json": json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode(),
        **{f"blobs/sha256/{blob.digest[7:]}": blob.data for blob in image.blobs},
    }
    with tarfile.open(target, "w") as archive:
        for path, data in files.items():
            add_file(archive, path, data)

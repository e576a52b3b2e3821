"""Pulls from Debian's docker-registry on loopback, of ``pykubelet criserver`` and containerd: one layer of 200 MB.

``pulls.KIND.PACKING.time``: PullImage, of few big files (``big``) or 20,000 small ones (``small``), compressed by
gzip or zstd. ``….cpu``: CPU time of the runtime and of the processes that it has started, until none of them works any
more. ``pulls.unchanged.time``: PullImage of an image that is present and unchanged, as with ``imagePullPolicy:
Always``. Both pull the same image; each round has another one, because a runtime does not fetch again what it has.
Images stay until the end, as ext4 creates files ten times slower in the minutes after the removal of many others: it
examines each inode, so as not to reuse those removed recently.
"""

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.figures import CONTAINERD, SERVER, Figure
from benchmarks.packing import LAYER_BYTES, Image, Template, gzip, zstd
from benchmarks.plan import Plan
from benchmarks.usage import usage
from benchmarks.world import World
from pykubelet.base.errors import Permanent
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.distribution import DistributionRegistry
from pykubelet.testing.runtime import PrivateRuntime

_KINDS = {"small": 10_000, "big": 50_000_000}
_PACKINGS = {"gzip": gzip, "zstd": zstd}
_STILL = 1.0
"""Seconds without CPU usage after which a runtime's work counts as done."""
_LEAST = 0.03
"""CPU seconds that an idle daemon may use in that time."""


@dataclass(frozen=True, slots=True)
class _Side:
    label: str
    runtime: PrivateRuntime
    client: CriClient
    taken: dict[str, list[float]] = field(default_factory=dict)

    def cpu(self) -> float:
        """CPU seconds of the daemon and its children until now."""
        pid = self.runtime.pid()
        if pid is None:
            raise Permanent(f"{self.label} has ended; see its log")
        return usage(pid).cpu_seconds

    async def settled(self) -> float:
        """Wait until the daemon is idle; returns ``cpu``."""
        before = self.cpu()
        while True:
            await asyncio.sleep(_STILL)
            after = self.cpu()
            if after - before <= _LEAST:
                return after
            before = after

    async def pull(self, image: pb.ImageSpec) -> float:
        """Pull an image; returns the milliseconds."""
        begin = time.perf_counter()
        await self.client.pull_image(image)
        return 1e3 * (time.perf_counter() - begin)

    def note(self, key: str, value: float) -> None:
        self.taken.setdefault(key, []).append(value)


async def pulls(made: World, plan: Plan, figures: list[Figure], say: Callable[[str], None]) -> None:
    """Take all figures ``pulls.…``."""
    directory = made.home / "registry"
    try:
        with DistributionRegistry(directory) as registry:
            async with CriClient.connect(made.server.endpoint) as ours, CriClient.connect(made.bare.endpoint) as theirs:
                sides = (_Side(SERVER, made.server, ours), _Side(CONTAINERD, made.bare, theirs))
                for kind, size in _KINDS.items():
                    for packing, pack in _PACKINGS.items():
                        say(f"pulls: packing {LAYER_BYTES // 10**6} MB of {kind} files by {packing}")
                        template = await asyncio.to_thread(Template, size, pack)
                        for number in range(plan.pulls):
                            name = f"bench/{kind}-{packing}:{number}"
                            say(f"pulls: {name}")
                            await asyncio.to_thread(_push, registry, template.image(name), name)
                            wanted = pb.ImageSpec(image=f"{registry.host}/{name}")
                            for side in sides if number % 2 else sides[::-1]:
                                await _fetch(side, wanted, f"pulls.{kind}.{packing}")
                        del template
                await _unchanged(sides, registry, plan, say)
                figures += [_figure(side, key, values) for side in sides for key, values in side.taken.items()]
    finally:
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)


async def _fetch(side: _Side, wanted: pb.ImageSpec, key: str) -> None:
    """Measure one pull."""
    await asyncio.to_thread(os.sync)
    before = await side.settled()
    side.note(f"{key}.time", await side.pull(wanted))
    side.note(f"{key}.cpu", 1e3 * (await side.settled() - before))


async def _unchanged(
    sides: Sequence[_Side], registry: DistributionRegistry, plan: Plan, say: Callable[[str], None]
) -> None:
    say("pulls: an unchanged image")
    name = "bench/unchanged:1"
    template = await asyncio.to_thread(Template, LAYER_BYTES // 2, zstd)
    await asyncio.to_thread(_push, registry, template.image(name), name)
    wanted = pb.ImageSpec(image=f"{registry.host}/{name}")
    for side in sides:
        await side.pull(wanted)
        await side.settled()
    for _ in range(plan.commands):
        for side in sides:
            side.note("pulls.unchanged.time", await side.pull(wanted))


def _push(registry: DistributionRegistry, image: Image, name: str) -> None:
    repository, _, tag = name.partition(":")
    for blob in (image.config, image.layer):
        registry.push_blob(repository, blob.data)
    registry.push_manifest(repository, tag, image.manifest.media_type, image.manifest.data)


def _figure(side: _Side, key: str, values: Sequence[float]) -> Figure:
    return Figure(key, side.label, "ms", tuple(values))

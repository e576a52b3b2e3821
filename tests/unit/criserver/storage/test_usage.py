"""Counting what containers have written: a tree that takes for ever holds up no answer."""

import asyncio
import os
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import NotFound
from pykubelet.criserver.stats.writable_layers import WritableLayers
from pykubelet.criserver.storage import Layers, Snapshots, usage
from pykubelet.criserver.storage.usage import UsageCounter
from pykubelet.criserver.types import ContainerID
from pykubelet.linux.filesystems.treewalk import TreeWalk
from pykubelet.testing.wait import until

SIZE = 1 << 20


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> Generator[None, None, None]:
    """Trees of which a file is called ``endless`` are never counted to the end, while the test runs."""
    real, over = TreeWalk.steps, [False]

    def steps(walk: TreeWalk) -> Generator[None, None, None]:
        forever = "endless" in os.listdir(walk._levels[-1].fd)  # noqa: PTH208
        for _ in real(walk):
            yield
            while forever and not over[0]:
                time.sleep(0.001)
                yield

    monkeypatch.setattr(TreeWalk, "steps", steps)
    yield
    over[0] = True


def _write(root: Path, container: str, *names: str) -> Path:
    upper = root / "containers" / container / "upper"
    upper.mkdir(parents=True)
    for name in names:
        (upper / name).write_bytes(b"x" * SIZE)
    return upper


@pytest.mark.usefixtures("endless")
async def test_container_whose_files_take_for_ever_holds_up_no_usage_of_others(tmp_path: Path) -> None:
    _write(tmp_path, "good", "data")
    _write(tmp_path, "hostile", "endless")
    snapshots = Snapshots(tmp_path, Layers(root=tmp_path, blob=lambda digest: tmp_path / digest))
    snapshots.load()
    layers = WritableLayers(snapshots=snapshots, trash=snapshots._layers.trash, directory=tmp_path, clock=SystemClock())
    async with asyncio.timeout(20):
        good = await layers.usage(ContainerID("good"))
        hostile = await layers.usage(ContainerID("hostile"))
        total = await layers.total()
    assert good is not None and good.used >= SIZE
    assert hostile is not None and hostile.used >= SIZE, "what was counted until then"
    assert total.used == good.used + hostile.used


@pytest.mark.usefixtures("endless")
async def test_count_without_an_end_is_given_up_and_kept_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "_LONGEST", 0.15)
    upper, counts = _write(tmp_path, "hostile", "endless"), UsageCounter()
    first = await counts.of("hostile", str(upper))
    assert first is not None and not first.complete
    begun = time.monotonic()
    assert await counts.of("hostile", str(upper)) == first
    assert time.monotonic() - begun < 1


async def test_count_follows_what_is_written(tmp_path: Path) -> None:
    upper, counts = _write(tmp_path, "one"), UsageCounter()
    before = await counts.of("one", str(upper))
    (upper / "more").write_bytes(b"x" * SIZE)
    async with asyncio.timeout(10):
        while (after := await counts.of("one", str(upper))) == before:  # noqa: ASYNC110 - the count goes on meanwhile
            await asyncio.sleep(0)
    assert before is not None and after is not None
    assert after.bytes - before.bytes >= SIZE and after.complete


async def test_tree_that_is_gone_is_not_remembered(tmp_path: Path) -> None:
    counts = UsageCounter()
    with pytest.raises(NotFound):
        await counts.of("none", str(tmp_path / "none"))
    assert counts._counts == {}


@pytest.mark.usefixtures("endless")
async def test_forgotten_count_under_way_closes_its_descriptors(tmp_path: Path) -> None:
    upper, counts = _write(tmp_path, "hostile", "endless"), UsageCounter()
    assert await counts.of("hostile", str(upper)) is not None
    assert _held_in(upper), "the count is under way"
    counts.forget("hostile")
    await until(lambda: not _held_in(upper))


def _held_in(directory: Path) -> list[str]:
    found = []
    for fd in os.listdir("/proc/self/fd"):  # noqa: PTH208
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
        except OSError:
            continue
        if target == str(directory):
            found.append(target)
    return found

"""The worker that starts while its layer is downloaded."""

import asyncio
import os
import signal
import sys
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from pykubelet.base import proc
from pykubelet.base.errors import Invalid
from pykubelet.criserver.storage import unpacking
from pykubelet.testing.limits import no_descriptors
from pykubelet.testing.wait import until
from tests.unit.criserver.storage.world import World, entry, tar

pytestmark = [pytest.mark.root, pytest.mark.timeout(60)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    root = tmp_path / "world"
    root.mkdir()
    return World(root)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """The process ids of the workers, and whether each started without a layer."""
    found: list[tuple[int, bool]] = []
    run = proc.run

    async def recorded(argv: list[str], *, on_start: Callable[[int], None] | None = None, **options: object) -> object:
        def noted(pid: int) -> None:
            found.append((pid, argv[4] == "-"))
            if on_start is not None:
                on_start(pid)

        return await run(argv, on_start=noted, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(proc, "run", recorded)
    return found


def _chains(world: World) -> list[str]:
    return [layer.chain_id for layer in world.stack]


async def _started(found: list[tuple[int, bool]]) -> int:
    await until(lambda: bool(found))
    return found[0][0]


async def test_pull_goes_on_without_a_worker_on_standby(world: World) -> None:
    """It only saves time: a server that is short of descriptors for a moment must not fail the pull for it."""
    world.add(tar([entry("a", data=b"content")]))
    with no_descriptors():
        context = world.layers.pinned(_chains(world))
        await context.__aenter__()
    meta = await world.layers.ensure(world.stack)
    await context.__aexit__(None, None, None)
    assert (world.layers.directory / str(meta.directory) / "a").read_bytes() == b"content"


async def test_layer_is_unpacked_by_the_worker_on_standby(world: World, started: list[tuple[int, bool]]) -> None:
    world.add(tar([entry("a", data=b"content")]))
    async with world.layers.pinned(_chains(world)):
        await _started(started)
        meta = await world.layers.ensure(world.stack)
    assert (world.layers.directory / str(meta.directory) / "a").read_bytes() == b"content"
    assert [standby for _, standby in started] == [True]


async def test_two_layers_at_once_get_a_worker_each(world: World, started: list[tuple[int, bool]]) -> None:
    world.add(tar([entry("a", data=b"1")]))
    world.add(tar([entry("b", data=b"2")]))
    async with world.layers.pinned(_chains(world)), world.layers.pinned(_chains(world)):
        await asyncio.gather(*(world.layers.ensure(world.stack[: count + 1]) for count in range(2)))
    assert sorted(standby for _, standby in started) == [False, True]


async def test_worker_without_work_is_gone_afterwards(world: World, started: list[tuple[int, bool]]) -> None:
    world.add(tar([entry("a")]))
    with suppress(ConnectionError):
        async with world.layers.pinned(_chains(world)):
            pid = await _started(started)
            raise ConnectionError("the download failed")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_no_worker_stands_by_for_layers_that_are_there(world: World, started: list[tuple[int, bool]]) -> None:
    world.add(tar([entry("a")]))
    await world.layers.ensure(world.stack)
    async with world.layers.pinned(_chains(world)):
        await world.layers.ensure(world.stack)
    assert [standby for _, standby in started] == [False]


async def test_killed_worker_on_standby_is_replaced(world: World, started: list[tuple[int, bool]]) -> None:
    world.add(tar([entry("a", data=b"content")]))
    async with world.layers.pinned(_chains(world)):
        pid = await _started(started)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not Path(f"/proc/{pid}").exists())
        meta = await world.layers.ensure(world.stack)
    assert (world.layers.directory / str(meta.directory) / "a").read_bytes() == b"content"
    assert [standby for _, standby in started] == [True, False]


async def test_cancelled_unpacking_kills_the_worker(world: World, started: list[tuple[int, bool]]) -> None:
    world.add(tar([entry(f"file{number}", data=os.urandom(100_000)) for number in range(400)]))
    async with world.layers.pinned(_chains(world)):
        task = asyncio.create_task(world.layers.ensure(world.stack))
        await until(lambda: bool(list(world.layers.directory.glob("1/file1"))))
        assert Path(f"/proc/{started[0][0]}/oom_score_adj").read_text() == "1000\n", "it ends before any pod"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    ((pid, standby),) = started
    assert standby
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    await world.layers.clean()
    assert not list(world.layers.directory.glob("1*"))


async def test_hostile_layer_is_confined_as_without_standby(world: World, started: list[tuple[int, bool]]) -> None:
    world.add(tar([entry("a", tarfile.SYMTYPE, linkname=str(world.outside)), entry("../../../outside", data=b"evil")]))
    async with world.layers.pinned(_chains(world)):
        with pytest.raises(Invalid, match="leads out of the layer"):
            await world.layers.ensure(world.stack)
    await world.layers.clean()
    world.assert_unharmed()
    assert [standby for _, standby in started] == [True]


async def test_worker_that_takes_too_long_is_killed(
    world: World, started: list[tuple[int, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "_TIMEOUT", 0.0)
    world.add(tar([entry("a", data=b"content")]))
    async with world.layers.pinned(_chains(world)):
        with pytest.raises(proc.ProgramTimeout):
            await world.layers.ensure(world.stack)
    with pytest.raises(ProcessLookupError):
        os.kill(started[0][0], 0)


_SERVER = """
import asyncio, sys
from pathlib import Path
from pykubelet.criserver.storage import Layers

async def main() -> None:
    layers = Layers(root=Path(sys.argv[1]), blob=Path)
    layers.load()
    async with layers.pinned(["sha256:missing"]):
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_worker_on_standby_ends_with_a_killed_server(tmp_path: Path) -> None:
    server = await asyncio.create_subprocess_exec(sys.executable, "-c", _SERVER, str(tmp_path / "storage"))
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children")
    try:
        await until(lambda: "unpack.worker" in _command(children.read_text()))
        worker = children.read_text()
    finally:
        server.kill()
        await server.wait()
    await until(lambda: not _command(worker))


def _command(pid: str) -> str:
    """The command line of a process; empty: it does not exist."""
    try:
        return Path(f"/proc/{pid.strip() or 'none'}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""

"""Calls about sandboxes that are cancelled at any point: what they leave can be stopped and removed."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pykubelet.criserver.types import SandboxPhase
from tests.unit.criserver.cancelled import cancelled_at_each_point
from tests.unit.criserver.sandbox.rig import config, rig_in


async def test_creation_cancelled_at_any_point_leaves_nothing(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:

        async def prepare() -> Callable[[], Awaitable[object]]:
            return lambda: rig.sandboxes.runner.run(config(), "")

        async def check() -> None:
            for sandbox in rig.sandboxes.table.visible():
                assert sandbox.ready, "it was finished before it was cancelled"
                await rig.sandboxes.remover.remove(sandbox.id)
            assert list(rig.sandboxes.table) == []
            assert await rig.store.load() == ([], [])
            assert rig.nothing_left()
            assert rig.network.held() == []

        assert await cancelled_at_each_point(prepare, check) > 0


@pytest.mark.parametrize("what", ["stop", "remove"])
async def test_stop_or_removal_cancelled_at_any_point_is_finished_by_a_retry(tmp_path: Path, what: str) -> None:
    async with rig_in(tmp_path) as rig:
        act = rig.sandboxes.stopper.stop if what == "stop" else rig.sandboxes.remover.remove

        async def prepare() -> Callable[[], Awaitable[object]]:
            identity = await rig.sandboxes.runner.run(config(), "")
            return lambda: act(identity)

        async def check() -> None:
            for sandbox in rig.sandboxes.table:
                await rig.sandboxes.stopper.stop(sandbox.id)
                assert sandbox.record.phase in (SandboxPhase.STOPPED, SandboxPhase.REMOVING)
                await rig.sandboxes.remover.remove(sandbox.id)
            assert list(rig.sandboxes.table) == []
            assert await rig.store.load() == ([], [])
            assert rig.nothing_left()
            assert rig.network.held() == []

        assert await cancelled_at_each_point(prepare, check) > 0

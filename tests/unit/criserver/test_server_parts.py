"""The parts of the runtime server that run beside its calls: loops and watchers."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pykubelet.base.concurrency.guard import item_failures
from pykubelet.criserver import main
from pykubelet.criserver.config import Settings
from pykubelet.criserver.metrics.metrics_endpoint import MetricsServer
from pykubelet.criserver.metrics.server_metrics import ServerMetrics
from pykubelet.criserver.scope import ServerScope
from pykubelet.testing.clock import VirtualClock

_PARTS = ("server.parts", "server.metrics")


class _FakeServer:
    """Stands for the servers of sockets: they serve at once."""

    def __init__(self, *_: object, **__: object) -> None:
        self.serving = asyncio.Event()

    async def run(self, ready: asyncio.Event | None = None) -> None:
        (ready or self.serving).set()


def _some(**fields: object) -> Any:
    return SimpleNamespace(**fields)


def _parts(
    scope: ServerScope, clock: VirtualClock, root: Path, *, bad: Callable[[], Awaitable[None]], good: Any
) -> Any:
    trash = _some(run=good)
    images = {"containers": None, "trash": trash, "collect_interrupted": good, "usage": None}
    return main.ServerParts(
        settings=Settings(root=root, run=root, metrics_address=str(root / "metrics.sock")),
        scope=scope,
        store=_some(write_deferred=good),
        images=_some(**images, transfer_calls=lambda table: None, calls=lambda clock: None),
        machine=_some(handlers=_some(shims=tuple)),
        namespaces=_some(),
        reload=_some(reloader=_some(run=good), network=_some(run=bad, follow_status=good, problem=str)),
        metrics=ServerMetrics(clock),
    )


async def test_part_that_raises_is_run_again_and_keeps_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, runs, others = VirtualClock(), dict.fromkeys(_PARTS, 0), 0

    async def fail_twice(part: str) -> None:
        runs[part] += 1
        if runs[part] < 3:
            raise KeyError("defect")

    async def good() -> None:
        nonlocal others
        others += 1

    attachments = _some(collect_garbage=good, release_leftovers=good)
    pods = _some(sandboxes=_some(attachments=attachments), containers=_some(table=()))
    monkeypatch.setattr(main, "build_pods", lambda deps: pods)
    monkeypatch.setattr(main, "build_calls", lambda deps: ())
    for each in ("CriServer", "StreamingServer"):
        monkeypatch.setattr(main, each, _FakeServer)
    monkeypatch.setattr(main, "ContainerExecutor", lambda containers: None)
    monkeypatch.setattr(main, "trim_periodically", lambda clock: asyncio.sleep(0))
    monkeypatch.setattr(main, "ShimLogFiles", lambda directories, clock: _some(run=good))
    monkeypatch.setattr(MetricsServer, "run", lambda server: fail_twice("server.metrics"))
    before = [item_failures().get(part, 0) for part in _PARTS]
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        scope = ServerScope.of(tasks, clock)
        monkeypatch.setattr(scope.repairs, "run", good)
        bad = _parts(scope, clock, tmp_path, bad=lambda: fail_twice("server.parts"), good=good)
        await main.Server(bad).serve()
        await clock.settle()
        assert (*runs.values(), others) == (1, 1, 9)
        await clock.advance(10)
    assert (*runs.values(), others) == (3, 3, 9)
    assert [item_failures()[part] - known for part, known in zip(_PARTS, before, strict=True)] == [2, 2]

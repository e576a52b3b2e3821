"""Calls and figures that the metrics of the server measure."""

from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock, create_autospec

import pytest

from pykubelet.base.errors import Transient
from pykubelet.criserver.compose.metrics import CallObserver, Figures
from pykubelet.criserver.config import Settings
from pykubelet.criserver.metrics.server_metrics import ServerMetrics
from pykubelet.criserver.types import ContainerPhase, SandboxPhase
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.clock import VirtualClock


@pytest.mark.parametrize(
    ("request_", "handler"),
    [
        (pb.StopPodSandboxRequest(pod_sandbox_id="s1"), "kata"),
        (pb.StopContainerRequest(container_id="c1"), "kata"),
        (pb.StopContainerRequest(container_id="gone"), "runc"),
        (pb.VersionRequest(), "runc"),
    ],
)
async def test_call_is_recorded_with_the_handler_of_its_object_as_it_was_before(request_: Any, handler: str) -> None:
    clock, metrics, pods = VirtualClock(), create_autospec(ServerMetrics, instance=True), Mock()
    pods.containers.table.find = {"c1": Mock(**{"record.sandbox_id": "s1"})}.get
    pods.sandboxes.table.lookup = {"s1": Mock(**{"record.handler": "kata"})}.get
    end = CallObserver(metrics=metrics, pods=pods, handlers=Mock(default="runc"), clock=clock).begin("M", request_)
    pods.sandboxes.table.lookup = {}.get
    await clock.advance(2)
    end("OK")
    metrics.call.assert_called_once_with("M", handler, "OK", 2.0)


def pods() -> Any:
    containers = [Mock(**{"record.phase": ContainerPhase.RUNNING}), Mock(**{"record.phase": ContainerPhase.EXITED})]
    sandboxes = [Mock(**{"record.phase": SandboxPhase.READY})]
    return Mock(**{"containers.table": containers, "sandboxes.table": sandboxes})


async def test_figures_are_counted_and_those_that_are_unknown_are_left_out(tmp_path: Path) -> None:
    usage = AsyncMock(return_value=Mock(trees=2, bytes=9))
    trash = Mock(usage=usage, undeleted=lambda: ["x"])
    images: Any = Mock(trash=trash, **{"images.running_pulls": ["app:1"]})
    settings = Settings(root=tmp_path, run=tmp_path)
    repairs: Any = Mock(unfinished=lambda: ())
    figures = Figures(settings=settings, pods=pods(), images=images, repairs=repairs)

    async def read() -> dict[str, float]:
        return {name.removeprefix("pykubelet_criserver_"): value for (name, _), value in (await figures.read()).items()}

    settings.database.parent.mkdir(parents=True, exist_ok=True)
    settings.database.write_bytes(b"12345")
    settings.database.with_name(f"{settings.database.name}-wal").write_bytes(b"67")
    found = await read()
    assert (found["sandboxes"], found["sandboxes_ready"]) == (1, 1)
    assert (found["containers"], found["containers_running"]) == (2, 1)
    assert (found["removals"], found["removals_bytes"], found["removals_failing"]) == (2, 9, 1)
    assert (found["database_bytes"], found["repairs"]) == (7, 0)
    usage.side_effect = Transient("the disk does not respond")
    assert found.keys() - (await read()).keys() == {"removals", "removals_bytes"}

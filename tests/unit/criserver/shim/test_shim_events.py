"""Events that shims send: OOM kills are kept until they are asked for; anything else is answered and ignored."""

from pathlib import Path

import pytest

from pykubelet.base.errors import Unsupported
from pykubelet.criserver.shim import ShimEvents
from pykubelet.criserver.shim.ttrpc_client import ShimGone, TtrpcConnection, connect
from pykubelet.pb import shim_task_pb2 as api
from pykubelet.pb.containerd_events_pb2 import TaskExit, TaskOOM

_SERVICE = "containerd.services.events.ttrpc.v1.Events"


async def _forward(connection: TtrpcConnection, topic: str, event: TaskOOM | TaskExit) -> None:
    request = api.ForwardRequest()
    request.envelope.topic = topic
    request.envelope.event.value = event.SerializeToString()
    await connection.call(_SERVICE, "Forward", request, api.Nothing, namespace="k8s.io", timeout=10)


async def test_oom_events_are_kept_until_they_are_taken(tmp_path: Path) -> None:
    events = ShimEvents(tmp_path / "events")
    events.socket.touch()  # of a former server
    await events.open()
    connection = await connect(str(events.socket), "events")
    await _forward(connection, "/tasks/exit", TaskExit(container_id="other"))
    await _forward(connection, "/tasks/oom", TaskOOM(container_id="c1"))
    assert [events.take_oom(name) for name in ("other", "c1", "c1")] == [False, True, False]
    with pytest.raises(Unsupported, match="Events/Subscribe is not served here"):
        await connection.call(_SERVICE, "Subscribe", api.Nothing(), api.Nothing, namespace="k8s.io", timeout=10)
    connection.close()
    await events.close()
    with pytest.raises(ShimGone):
        await connect(str(events.socket), "events")

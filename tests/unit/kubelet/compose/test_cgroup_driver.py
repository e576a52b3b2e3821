"""The cgroup driver that counts when agent and runtime differ; against a server with that one call."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest

from pykubelet.base.errors import Permanent
from pykubelet.kubelet.compose.cgroup_driver import check_runtime_driver, with_runtime_driver
from pykubelet.kubelet.config import KubeletConfiguration, Settings
from pykubelet.kubelet.report.metrics import KubeletMetrics
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.wait import until

_Context = grpc.aio.ServicerContext[pb.RuntimeConfigRequest, pb.RuntimeConfigResponse]


def _handlers(
    reply: pb.RuntimeConfigResponse | None,
) -> "grpc.GenericRpcHandler[pb.RuntimeConfigRequest, pb.RuntimeConfigResponse]":
    async def runtime_config(_: pb.RuntimeConfigRequest, context: "_Context") -> pb.RuntimeConfigResponse:
        if reply is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "unknown method RuntimeConfig")
        assert reply is not None
        return reply

    method = grpc.unary_unary_rpc_method_handler(
        runtime_config, pb.RuntimeConfigRequest.FromString, pb.RuntimeConfigResponse.SerializeToString
    )
    return grpc.method_handlers_generic_handler("runtime.v1.RuntimeService", {"RuntimeConfig": method})


@asynccontextmanager
async def _runtime(directory: Path, reply: pb.RuntimeConfigResponse | None) -> AsyncIterator[None]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_handlers(reply),))
    server.add_insecure_port(f"unix://{directory}/cri.sock")
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)


def _settings(path: Path, driver: str) -> Settings:
    config = KubeletConfiguration(cgroup_driver=driver)
    return Settings(node_name="node", config=config, runtime_endpoint=f"unix://{path}")


def _reply(driver: pb.CgroupDriver.ValueType) -> pb.RuntimeConfigResponse:
    return pb.RuntimeConfigResponse(linux=pb.LinuxRuntimeConfiguration(cgroup_driver=driver))


@pytest.mark.parametrize(
    ("configured", "reply", "used"),
    [
        ("cgroupfs", _reply(pb.SYSTEMD), "systemd"),
        ("systemd", _reply(pb.CGROUPFS), "cgroupfs"),
        ("systemd", _reply(pb.SYSTEMD), "systemd"),
        ("systemd", pb.RuntimeConfigResponse(), "systemd"),
        ("systemd", None, "systemd"),
    ],
)
async def test_cgroup_driver_of_the_runtime_takes_precedence(
    tmp_path: Path, configured: str, reply: pb.RuntimeConfigResponse | None, used: str
) -> None:
    async with _runtime(tmp_path, reply):
        settings, outdated = await with_runtime_driver(_settings(tmp_path / "cri.sock", configured))
    assert settings.config.cgroup_driver == used
    assert outdated == (reply is None)


async def test_unavailable_runtime_changes_nothing(tmp_path: Path) -> None:
    settings = _settings(tmp_path / "none.sock", "systemd")
    assert await with_runtime_driver(settings) == (settings, False)


@pytest.mark.parametrize("reply", [_reply(pb.SYSTEMD), pb.RuntimeConfigResponse(), None])
async def test_runtime_that_was_away_may_come_with_the_same_driver(
    tmp_path: Path, reply: pb.RuntimeConfigResponse | None
) -> None:
    clock = VirtualClock()
    metrics = KubeletMetrics(node_name="node", clock=clock)
    check = check_runtime_driver(_settings(tmp_path / "cri.sock", "systemd"), clock, metrics.calls.runtime_outdated)
    checking = asyncio.create_task(check)
    await until(lambda: clock.sleepers == 1)
    async with _runtime(tmp_path, reply):
        await clock.advance(5)
        await checking
    shown = b'kubelet_cri_losing_support{version="1.37.0"} 1.0' in metrics.render()
    assert shown == (reply is None)


async def test_runtime_that_comes_later_with_another_driver_ends_the_agent(tmp_path: Path) -> None:
    clock = VirtualClock()
    check = check_runtime_driver(_settings(tmp_path / "cri.sock", "cgroupfs"), clock, lambda: None)
    checking = asyncio.create_task(check)
    await until(lambda: clock.sleepers == 1)
    async with _runtime(tmp_path, _reply(pb.SYSTEMD)):
        await clock.advance(5)
        with pytest.raises(Permanent, match="uses the cgroup driver systemd, and the agent has started with cgroupfs"):
            await checking

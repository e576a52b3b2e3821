"""Which cgroup driver counts when agent and runtime differ; against a server with that one call."""

from pathlib import Path

import grpc
import grpc.aio
import pytest

from pykubelet.kubelet.compose.cgroup_driver import with_runtime_driver
from pykubelet.kubelet.config import KubeletConfiguration, Settings
from pykubelet.pb import runtime_v1_pb2 as pb

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
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_handlers(reply),))
    server.add_insecure_port(f"unix://{tmp_path}/cri.sock")
    await server.start()
    try:
        settings = await with_runtime_driver(_settings(tmp_path / "cri.sock", configured))
    finally:
        await server.stop(None)
    assert settings.config.cgroup_driver == used


async def test_unavailable_runtime_changes_nothing(tmp_path: Path) -> None:
    settings = _settings(tmp_path / "none.sock", "systemd")
    assert await with_runtime_driver(settings) == settings

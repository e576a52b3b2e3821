"""Calls that return URLs: rejected requests, and requests registered with the streaming server."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from pykubelet.base.errors import Invalid, NotFound, Permanent
from pykubelet.criserver.conmon import ConmonControl
from pykubelet.criserver.container import ContainerComponents
from pykubelet.criserver.runtimes import Task
from pykubelet.criserver.sandbox import SandboxComponents
from pykubelet.criserver.server.cri_calls.streaming import StreamingCalls
from pykubelet.criserver.streaming import AttachTarget, Execution, Forward, StreamingServer
from pykubelet.criserver.streaming.streaming_types import Streams, Target
from pykubelet.criserver.types import ContainerID, SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb

CONTROL = ConmonControl(Path("/bundles/c1"))


@dataclass
class Fakes:
    """One object in the place of all components that the calls use."""

    id: str = "c1"
    ready: bool = True
    config: pb.ContainerConfig = field(default_factory=lambda: pb.ContainerConfig(stdin_once=True))
    targets: list[Target] = field(default_factory=list)

    @property
    def table(self) -> "Fakes":
        return self

    @property
    def commands(self) -> "Fakes":
        return self

    @property
    def layout(self) -> "Fakes":
        return self

    def running(self, container: str) -> "Fakes":
        if container != self.id:
            raise NotFound(f"container {container} does not exist")
        return self

    def task(self, _: "Fakes") -> Task:
        return Task(id=ContainerID(self.id), sandbox=SandboxID("s"), bundle=Path("/bundles") / self.id)

    def runtime(self, _: "Fakes") -> "Fakes":
        return self

    def control(self, task: Task) -> ConmonControl:
        return CONTROL

    def get(self, _: str) -> "Fakes":
        return self

    def netns(self, _: "Fakes") -> Path:
        return Path("/netns/x")

    def url(self, target: Target) -> str:
        self.targets.append(target)
        return "http://127.0.0.1:1/exec/token"

    def calls(self) -> StreamingCalls:
        """The calls with the fakes."""
        return StreamingCalls(
            server=cast(StreamingServer, self),
            containers=cast(ContainerComponents, self),
            sandboxes=cast(SandboxComponents, self),
        )


async def test_exec_attach_and_port_forward_return_urls() -> None:
    fakes = Fakes()
    calls = fakes.calls()
    run = pb.ExecRequest(container_id="c1", cmd=["ls", "/"], stdin=True, stdout=True, tty=True)
    assert (await calls.exec(run)).url.startswith("http://127.0.0.1")
    await calls.attach(pb.AttachRequest(container_id="c1", stdout=True, stderr=True))
    fakes.config.stdin_once = False
    await calls.attach(pb.AttachRequest(container_id="c1", stdin=True, tty=True))
    await calls.port_forward(pb.PortForwardRequest(pod_sandbox_id="s", port=[80, 443]))
    talking = Streams(stdin=True, stdout=False, stderr=False, terminal=True)
    assert fakes.targets == [
        Execution("c1", ("ls", "/"), Streams(stdin=True, stdout=True, stderr=False, terminal=True)),
        AttachTarget(
            "c1", Path("/bundles/c1"), Streams(stdin=False, stdout=True, stderr=True, terminal=False), CONTROL
        ),
        AttachTarget("c1", Path("/bundles/c1"), talking, CONTROL, stdin_once=False),
        Forward("c1", Path("/netns/x"), (80, 443)),
    ]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"cmd": ["ls"]}, "at least one"),
        ({"stdout": True}, "needs a command"),
        ({"cmd": ["ls"], "stdout": True, "stderr": True, "tty": True}, "separate stderr"),
    ],
)
async def test_invalid_exec_requests_are_rejected(fields: dict[str, bool | list[str]], words: str) -> None:
    fakes = Fakes()
    with pytest.raises(Invalid, match=words):
        await fakes.calls().exec(pb.ExecRequest(container_id="c1", **fields))  # type: ignore[arg-type]  # by name
    assert fakes.targets == []


async def test_missing_containers_and_sandboxes_are_not_found() -> None:
    calls = Fakes(ready=False).calls()
    with pytest.raises(NotFound):
        await calls.attach(pb.AttachRequest(container_id="other", stdout=True))
    with pytest.raises(Permanent, match="not ready"):
        await calls.port_forward(pb.PortForwardRequest(pod_sandbox_id="s"))


@pytest.mark.parametrize("port", [0, -1, 65536])
async def test_invalid_ports_are_rejected(port: int) -> None:
    with pytest.raises(Invalid, match="invalid port"):
        await Fakes().calls().port_forward(pb.PortForwardRequest(pod_sandbox_id="s", port=[80, port]))

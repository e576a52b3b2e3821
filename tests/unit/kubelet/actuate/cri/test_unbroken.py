"""Calls that change something in the runtime are not interrupted when their caller is cancelled."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar, cast

import pytest
from google.protobuf.message import Message
from grpc import StatusCode
from grpc.aio import AioRpcError, Metadata

from pykubelet.base import tracing
from pykubelet.kubelet.actuate.cri import CriClient, CriOptions
from pykubelet.kubelet.actuate.cri.errors import CriError
from pykubelet.kubelet.actuate.cri.transport import StreamCall, UnaryCall
from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb
from tests.unit.base.tracing.recorded import recording

_Request = TypeVar("_Request", bound=Message)
_Reply = TypeVar("_Reply", bound=Message)

SANDBOX = SandboxID("s1")
CONTAINER = ContainerID("c1")
POD = pb.PodSandboxConfig(metadata=pb.PodSandboxMetadata(name="pod", namespace="ns", uid="u1"))
APP = pb.ContainerConfig(metadata=pb.ContainerMetadata(name="app"))


@dataclass
class SlowTransport:
    """Answers when told to."""

    go: asyncio.Event = field(default_factory=asyncio.Event)
    fails: bool = False
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    ended: list[str] = field(default_factory=list)
    broken_off: list[str] = field(default_factory=list)

    async def unary(self, call: UnaryCall[_Request, _Reply], request: _Request, timeout: float | None) -> _Reply:
        self.asked.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.broken_off.append(call.name)
            raise
        self.ended.append(call.name)
        if self.fails:
            raise AioRpcError(StatusCode.INTERNAL, Metadata(), Metadata(), "no such rootfs", None)
        reply: Message = call.reply()
        if isinstance(reply, pb.CreateContainerResponse):
            reply.container_id = CONTAINER
        if isinstance(reply, pb.RunPodSandboxResponse):
            reply.pod_sandbox_id = SANDBOX
        return cast("_Reply", reply)

    async def stream(
        self, call: StreamCall[_Request, _Reply], request: _Request, timeout: float | None
    ) -> AsyncGenerator[_Reply, None]:
        nothing: list[_Reply] = []
        for each in nothing:
            yield each

    async def close(self) -> None:
        return None


CALLS: dict[str, Callable[[CriClient], Awaitable[object]]] = {
    "RunPodSandbox": lambda cri: cri.run_pod_sandbox(POD, ""),
    "StopPodSandbox": lambda cri: cri.stop_pod_sandbox(SANDBOX),
    "RemovePodSandbox": lambda cri: cri.remove_pod_sandbox(SANDBOX),
    "CreateContainer": lambda cri: cri.create_container(SANDBOX, APP, POD),
    "StartContainer": lambda cri: cri.start_container(CONTAINER),
    "RemoveContainer": lambda cri: cri.remove_container(CONTAINER),
}


async def begun(slow: SlowTransport, name: str = "StartContainer", patience: float = 10.0) -> asyncio.Task[object]:
    """The call's caller, once the runtime has been asked."""
    cri = CriClient(slow, CriOptions(patience=patience))

    async def caller() -> object:
        return await CALLS[name](cri)

    task = asyncio.create_task(caller())
    await slow.asked.wait()
    return task


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("name", CALLS)
async def test_a_cancelled_caller_waits_for_the_end(name: str) -> None:
    slow = SlowTransport()
    task = await begun(slow, name)
    task.cancel()
    await settle()
    assert not task.done()
    slow.go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (slow.ended, slow.broken_off) == ([name], [])


async def test_an_uncancelled_caller_gets_the_result() -> None:
    slow = SlowTransport()
    task = await begun(slow, "CreateContainer")
    slow.go.set()
    assert await task == CONTAINER


async def test_an_uncancelled_caller_gets_the_error() -> None:
    slow = SlowTransport(fails=True)
    task = await begun(slow)
    slow.go.set()
    with pytest.raises(CriError, match="no such rootfs"):
        await task


async def test_second_cancellation_does_not_interrupt_the_call() -> None:
    slow = SlowTransport()
    task = await begun(slow)
    for _ in range(3):
        task.cancel()
        await settle()
    slow.go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert slow.ended == ["StartContainer"]


async def test_hung_call_is_cancelled_after_patience(caplog: pytest.LogCaptureFixture) -> None:
    slow = SlowTransport()
    task = await begun(slow, patience=0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(5):
            await task
    assert slow.broken_off == ["StartContainer"]
    assert "runtime call cancelled" in caplog.text
    assert not [each for each in asyncio.all_tasks() if each.get_name().startswith("cri-")]


async def test_patience_is_not_renewed_by_further_cancellations() -> None:
    slow = SlowTransport()
    task = await begun(slow, patience=0.1)
    start = asyncio.get_running_loop().time()
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
        assert asyncio.get_running_loop().time() - start < 5
    assert slow.broken_off == ["StartContainer"]


async def test_result_of_abandoned_call_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for fails, text in ((False, "runtime call ended"), (True, "runtime call failed")):
        slow = SlowTransport(fails=fails)
        task = await begun(slow)
        task.cancel()
        await settle()
        slow.go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        record = caplog.records[-1]
        assert record.message.startswith(text)
        assert (vars(record)["call"], vars(record)["target"]) == ("StartContainer", CONTAINER)


async def test_span_of_a_failed_call_has_the_error_as_the_log_shows_it() -> None:
    slow = SlowTransport(fails=True)
    slow.go.set()
    with recording() as recorded:
        with tracing.span("syncPod"), pytest.raises(CriError) as raised:
            await CALLS["StartContainer"](CriClient(slow))
        assert recorded.parent("runtime.v1.RuntimeService/StartContainer") == "syncPod"
        assert recorded["runtime.v1.RuntimeService/StartContainer"].status.description == str(raised.value)

"""Replies of the runtime server: the code and the message of every refusal, and the events of a pod."""

import asyncio
import resource
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from grpc import StatusCode

from pykubelet.base.units import MIB
from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.pb import runtime_v1_pb2_grpc as pb_grpc
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.runtime import PrivateRuntime
from pykubelet.testing.wait import until_answer
from tests.contract.cri.rig import FAILING, MISSING, STUBBORN, Runtime

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.only_on("criserver")]


@dataclass
class CallTargets:
    """A running container, a container that has not been started, and the stubs, which return status codes."""

    runtime: Runtime
    sandbox: SandboxID
    running: ContainerID
    created: ContainerID
    calls: "pb_grpc.RuntimeServiceAsyncStub"
    images: "pb_grpc.ImageServiceAsyncStub"

    def pod(self, **sysctls: str) -> pb.PodSandboxConfig:
        config = self.runtime.pod_config(attempt=1)
        config.linux.sysctls.update({name.replace("__", "."): value for name, value in sysctls.items()})
        return config

    def run(self, config: pb.PodSandboxConfig, handler: str = "") -> Awaitable[object]:
        return self.calls.RunPodSandbox(pb.RunPodSandboxRequest(config=config, runtime_handler=handler))

    def create(self, sandbox: str = "", image: str = "", **fields: object) -> Awaitable[object]:
        config = self.runtime.container_config(STUBBORN, attempt=1)
        if image:
            config.image.image = image
        config.MergeFrom(pb.ContainerConfig(**fields))  # type: ignore[arg-type]  # the message's own fields
        request = pb.CreateContainerRequest(pod_sandbox_id=sandbox or self.sandbox, config=config)
        return self.calls.CreateContainer(request)

    def exec_sync(self, container: str, *command: str, timeout: int = 0) -> Awaitable[object]:
        return self.calls.ExecSync(pb.ExecSyncRequest(container_id=container, cmd=command, timeout=timeout))

    def pull(self, image: str) -> Awaitable[object]:
        return self.images.PullImage(pb.PullImageRequest(image=pb.ImageSpec(image=image)))


@pytest.fixture
async def given(runtime: Runtime, daemon: PrivateRuntime) -> AsyncIterator[CallTargets]:
    running = await runtime.start(STUBBORN)
    sandbox = runtime.sandboxes[0]
    created = await runtime.create(sandbox, MISSING)
    async with grpc.aio.insecure_channel(daemon.endpoint) as channel:
        calls, images = pb_grpc.RuntimeServiceStub(channel), pb_grpc.ImageServiceStub(channel)
        yield CallTargets(runtime, sandbox, running, created, calls, images)


Work = Callable[[CallTargets], Awaitable[object]]
_INVALID: dict[str, Work] = {
    "needs a config": lambda g: g.calls.RunPodSandbox(pb.RunPodSandboxRequest()),
    "CreateContainer needs a config": lambda g: g.calls.CreateContainer(pb.CreateContainerRequest()),
    "ExecSync needs a command": lambda g: g.exec_sync(g.running),
    "kernel.core_pattern": lambda g: g.run(g.pod(kernel__core_pattern="|/evil")),
    "net.ipv4.tcp_fin_timeout": lambda g: g.run(g.pod(net__ipv4__tcp_fin_timeout="1\nkernel.core_pattern=|/evil")),
    "net.ipv4.tcp_rmem": lambda g: g.run(g.pod(net__ipv4__tcp_rmem="1+kernel.core_pattern=|/evil")),
    "app@sha256:123": lambda g: g.pull("app@sha256:123"),
    "srv": lambda g: g.create(working_dir="srv"),
    "'exotic'": lambda g: g.run(g.pod(), "exotic"),
    "/proc/self/fd/7": lambda g: g.create(working_dir="/proc/self/fd/7"),
}
_OTHERS: list[tuple[Work, StatusCode, str]] = [
    (
        lambda g: g.create(CDI_devices=[pb.CDIDevice(name="no.such/vendor=0")]),
        StatusCode.NOT_FOUND,
        "no.such/vendor=0",
    ),
    (lambda g: g.create(sandbox="absent"), StatusCode.NOT_FOUND, "absent"),
    (lambda g: g.create(image="localhost/none:1"), StatusCode.NOT_FOUND, "localhost/none:1"),
    (
        lambda g: g.calls.ContainerStatus(pb.ContainerStatusRequest(container_id="absent")),
        StatusCode.NOT_FOUND,
        "absent",
    ),
    (lambda g: g.calls.Exec(pb.ExecRequest(container_id="absent", cmd=["x"], stdout=True)), StatusCode.NOT_FOUND, "no"),
    (
        lambda g: g.calls.PortForward(pb.PortForwardRequest(pod_sandbox_id="absent")),
        StatusCode.NOT_FOUND,
        "absent",
    ),
    (lambda g: g.exec_sync(g.running, "sleep", "600", timeout=1), StatusCode.DEADLINE_EXCEEDED, "1 s"),
    (
        lambda g: g.calls.StartContainer(pb.StartContainerRequest(container_id=g.running)),
        StatusCode.FAILED_PRECONDITION,
        "<running>",
    ),
    (lambda g: g.exec_sync(g.created, "true"), StatusCode.FAILED_PRECONDITION, "<created>"),
    (
        lambda g: g.calls.ReopenContainerLog(pb.ReopenContainerLogRequest(container_id=g.created)),
        StatusCode.FAILED_PRECONDITION,
        "<created>",
    ),
]
_CASES = [*((work, StatusCode.INVALID_ARGUMENT, words) for words, work in _INVALID.items()), *_OTHERS]


async def _refused(work: Awaitable[object]) -> tuple[StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await work
    return failed.value.code(), failed.value.details() or ""


async def test_every_refusal_has_its_code_and_names_the_object(given: CallTargets) -> None:
    seen = [await _refused(work(given)) for work, _, _ in _CASES]
    words = [each.replace("<running>", given.running).replace("<created>", given.created) for _, _, each in _CASES]
    wrong = [
        (found, case[1], word)
        for found, case, word in zip(seen, _CASES, words, strict=True)
        if found[0] != case[1] or word not in found[1]
    ]
    assert not wrong, "\n".join(str(each) for each in wrong)
    boxes = await given.runtime.client.list_pod_sandboxes()
    assert [box.id for box in boxes if box.metadata.uid == given.runtime.logs.name] == [given.sandbox]


async def test_reserved_name_and_stopped_pod_are_refused(given: CallTargets) -> None:
    changed = given.runtime.pod_config()
    changed.labels["changed"] = "yes"
    code, words = await _refused(given.run(changed))
    assert code is StatusCode.ALREADY_EXISTS and "contract" in words and "pod" in words
    config = given.runtime.container_config(STUBBORN)
    config.labels["changed"] = "yes"
    request = pb.CreateContainerRequest(pod_sandbox_id=given.sandbox, config=config)
    code, words = await _refused(given.calls.CreateContainer(request))
    assert code is StatusCode.ALREADY_EXISTS and "stubborn" in words
    await given.runtime.client.stop_pod_sandbox(given.sandbox)
    code, words = await _refused(given.create())
    assert code is StatusCode.FAILED_PRECONDITION and given.sandbox in words


async def test_output_of_many_commands_takes_bounded_memory(given: CallTargets, daemon: PrivateRuntime) -> None:
    """A pod has as many commands at a time as it has probes and hooks, each with 16 MiB of output."""
    note = "/tmp/written"
    flood = ["sh", "-c", f"head -c 8000000 /dev/zero; head -c 8000000 /dev/zero >&2; echo >> {note}; exec sleep 3600"]
    before, commands = _memory(daemon), 24
    tasks = [asyncio.create_task(given.runtime.client.exec_sync(given.running, flood)) for _ in range(commands)]
    try:

        async def written() -> bool:
            reply = await given.runtime.client.exec_sync(given.running, ["sh", "-c", f"wc -l < {note}"])
            return reply.stdout.strip() == str(commands).encode()

        await until_answer(written)
        assert _memory(daemon) - before < 256 * MIB
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _memory(daemon: PrivateRuntime) -> int:
    """Bytes of memory that the server has in use."""
    pages = Path(f"/proc/{daemon.pid()}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


async def test_events_of_pod_life_cycle_are_sent_in_order(given: CallTargets) -> None:
    """The events arrive in order, each with the state of the pod at that time."""
    runtime = given.runtime
    seen: list[pb.ContainerEventResponse] = []
    over = asyncio.Event()

    async def watch() -> None:
        async for event in given.calls.GetContainerEvents(pb.GetEventsRequest()):
            seen.append(event)
            if (event.container_id, event.container_event_type) == (sandbox, pb.CONTAINER_DELETED_EVENT):
                over.set()

    sandbox = SandboxID("")
    watcher = asyncio.ensure_future(watch())
    try:
        async with asyncio.timeout(20 * PATIENCE):
            for _ in range(10):  # on the same connection, after the request for the stream
                await given.calls.Version(pb.VersionRequest())
            sandbox = await runtime.sandbox(runtime.pod_config(attempt=1))
            container = await runtime.client.create_container(
                sandbox, runtime.container_config(FAILING), runtime.pod_config(attempt=1)
            )
            await runtime.client.start_container(container)
            await runtime.ended(container)
            await runtime.client.remove_container(container)
            await runtime.client.stop_pod_sandbox(sandbox)
            await runtime.client.remove_pod_sandbox(sandbox)
            await over.wait()
    finally:
        watcher.cancel()
        await asyncio.wait({watcher})
    kinds = [event.container_event_type for event in seen if event.container_id == container]
    life = [
        pb.CONTAINER_CREATED_EVENT,
        pb.CONTAINER_STARTED_EVENT,
        pb.CONTAINER_STOPPED_EVENT,
        pb.CONTAINER_DELETED_EVENT,
    ]
    assert kinds == life
    assert [event.container_event_type for event in seen if event.container_id == sandbox] == life
    assert all(event.created_at > 0 for event in seen)
    stopped = next(event for event in seen if event.container_event_type == pb.CONTAINER_STOPPED_EVENT)
    assert stopped.pod_sandbox_status.id == sandbox
    assert [(status.id, status.exit_code) for status in stopped.containers_statuses] == [(container, 3)]

"""Contract of pod sandboxes."""

import time

import pytest

from pykubelet.base.errors import Conflict, NotFound
from pykubelet.kubelet.actuate.cri import CriError
from pykubelet.pb import runtime_v1_pb2 as pb
from tests.contract.cri.rig import MARK, STUBBORN, Runtime


@pytest.mark.steady_clock  # its time is compared with the test's clock
async def test_sandbox_status_has_the_fields_of_its_request(runtime: Runtime) -> None:
    before = time.time_ns()
    config = runtime.pod_config(attempt=3)
    status = (await runtime.client.pod_sandbox_status(await runtime.sandbox(config))).status
    assert status.state == pb.SANDBOX_READY
    assert status.metadata == config.metadata
    assert dict(status.labels) == dict(config.labels)
    assert dict(status.annotations) == dict(config.annotations)
    assert before <= status.created_at <= time.time_ns()
    assert status.network.ip.count(".") == 3


async def test_sandbox_on_the_network_of_the_node_has_no_address(runtime: Runtime) -> None:
    config = runtime.pod_config()
    config.linux.security_context.namespace_options.network = pb.NODE
    config.hostname = ""
    status = (await runtime.client.pod_sandbox_status(await runtime.sandbox(config))).status
    assert status.state == pb.SANDBOX_READY
    assert status.network.ip == ""
    assert status.linux.namespaces.options.network == pb.NODE


async def test_sandboxes_are_stopped_and_removed_again_and_again(runtime: Runtime) -> None:
    sandbox = await runtime.sandbox()
    await runtime.client.stop_pod_sandbox(sandbox)
    await runtime.client.stop_pod_sandbox(sandbox)
    status = (await runtime.client.pod_sandbox_status(sandbox)).status
    assert (status.state, status.network.ip) == (pb.SANDBOX_NOTREADY, "")
    await runtime.client.remove_pod_sandbox(sandbox)
    await runtime.client.remove_pod_sandbox(sandbox)
    with pytest.raises(NotFound):
        await runtime.client.pod_sandbox_status(sandbox)


async def test_a_running_sandbox_is_removed_with_its_containers(runtime: Runtime) -> None:
    container = await runtime.start(STUBBORN)
    await runtime.client.stop_pod_sandbox(runtime.sandboxes[0])
    await runtime.client.remove_pod_sandbox(runtime.sandboxes[0])
    with pytest.raises(NotFound):
        await runtime.client.container_status(container)


async def test_stopping_a_sandbox_kills_its_containers(runtime: Runtime) -> None:
    container = await runtime.start(STUBBORN)
    await runtime.client.stop_pod_sandbox(runtime.sandboxes[0])
    status = await runtime.ended(container)
    assert (status.exit_code, status.reason) == (137, "Error")


async def test_sandboxes_are_listed_by_each_filter(runtime: Runtime) -> None:
    first = await runtime.sandbox(runtime.pod_config(0))
    second = await runtime.sandbox(runtime.pod_config(1))
    await runtime.client.stop_pod_sandbox(first)
    mine = {MARK: runtime.logs.name}
    ready = pb.PodSandboxStateValue(state=pb.SANDBOX_READY)
    stopped = pb.PodSandboxStateValue(state=pb.SANDBOX_NOTREADY)

    async def found(filter: pb.PodSandboxFilter) -> set[str]:
        return {sandbox.id for sandbox in await runtime.client.list_pod_sandboxes(filter)}

    assert await found(pb.PodSandboxFilter(label_selector=mine)) == {first, second}
    assert await found(pb.PodSandboxFilter(label_selector=mine | {"attempt": "1"})) == {second}
    assert await found(pb.PodSandboxFilter(label_selector=mine, state=ready)) == {second}
    assert await found(pb.PodSandboxFilter(label_selector=mine, state=stopped)) == {first}
    assert await found(pb.PodSandboxFilter(id=first)) == {first}
    assert await found(pb.PodSandboxFilter(id=first, state=ready)) == set()
    assert {first, second} <= {sandbox.id for sandbox in await runtime.client.list_pod_sandboxes()}


async def test_a_sandbox_name_is_taken_once(runtime: Runtime) -> None:
    sandbox = await runtime.sandbox()
    other = runtime.pod_config()
    other.labels["changed"] = "yes"
    with pytest.raises(Conflict):
        await runtime.sandbox(other)
    assert (await runtime.client.pod_sandbox_status(sandbox)).status.state == pb.SANDBOX_READY


async def test_an_unknown_handler_makes_no_sandbox(runtime: Runtime) -> None:
    with pytest.raises(CriError):
        await runtime.sandbox(handler="no-such-handler")
    filter = pb.PodSandboxFilter(label_selector={MARK: runtime.logs.name})
    assert await runtime.client.list_pod_sandboxes(filter) == []

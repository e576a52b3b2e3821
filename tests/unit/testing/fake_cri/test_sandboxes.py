"""Sandboxes of the fake runtime."""

import pytest

from pykubelet.base.errors import Conflict, Invalid, Permanent, Transient
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.types.ids import SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.fake_cri import FakeCri, FakeCriOptions
from tests.unit.testing.fake_cri.build import app, pod, start, state


async def test_a_dead_sandbox_takes_its_containers_along(cri: FakeCri, client: CriClient) -> None:
    container = await start(client)
    cri.end_sandbox(cri.sandbox("ns/pod"))
    status = (await client.pod_sandbox_status(SandboxID(cri.sandboxes[0].id))).status
    assert (status.state, status.network.ip) == (pb.SANDBOX_NOTREADY, "")
    assert await state(client, container) == (pb.CONTAINER_EXITED, 137, "Error")


async def test_every_sandbox_has_its_own_address(client: CriClient) -> None:
    ids = [await client.run_pod_sandbox(pod(name)) for name in ("a", "b")]
    addresses = {(await client.pod_sandbox_status(sandbox)).status.network.ip for sandbox in ids}
    assert addresses == {"10.88.0.2", "10.88.0.3"}


async def test_sandbox_on_the_network_of_the_node_has_no_address(client: CriClient) -> None:
    config = pod()
    config.linux.security_context.namespace_options.network = pb.NODE
    status = (await client.pod_sandbox_status(await client.run_pod_sandbox(config))).status
    assert status.network.ip == ""
    assert status.linux.namespaces.options.network == pb.NODE


async def test_the_network_may_be_down(cri: FakeCri, client: CriClient) -> None:
    cri.set_condition("NetworkReady", False)
    conditions = {c.type: c.status for c in (await client.status()).status.conditions}
    assert conditions == {"RuntimeReady": True, "NetworkReady": False}
    with pytest.raises(Transient, match="network plugin is not ready"):
        await client.run_pod_sandbox(pod())


async def test_names_are_reserved_while_the_sandbox_is_there(client: CriClient) -> None:
    sandbox = await client.run_pod_sandbox(pod())
    with pytest.raises(Conflict, match=f"reserved for .*{sandbox}"):
        await client.run_pod_sandbox(pod())
    await client.run_pod_sandbox(pod(attempt=1))
    await client.remove_pod_sandbox(sandbox)
    await client.run_pod_sandbox(pod())


@pytest.mark.parametrize("handler", ["", "runc"])
async def test_sandbox_has_the_handler_of_its_request(client: CriClient, handler: str) -> None:
    status = (await client.pod_sandbox_status(await client.run_pod_sandbox(pod(), handler))).status
    assert status.runtime_handler == handler


async def test_an_unknown_handler_and_a_nameless_pod_are_refused(client: CriClient) -> None:
    with pytest.raises(Invalid, match='no runtime for "kata"'):
        await client.run_pod_sandbox(pod(), "kata")
    with pytest.raises(Invalid, match="needs a name"):
        await client.run_pod_sandbox(pb.PodSandboxConfig())


async def test_a_stopped_one_takes_no_containers(client: CriClient) -> None:
    sandbox = await client.run_pod_sandbox(pod())
    await client.stop_pod_sandbox(sandbox)
    with pytest.raises(Permanent, match="not ready"):
        await client.create_container(sandbox, app(), pod())
    with pytest.raises(Permanent, match="not ready"):
        await client.port_forward(sandbox, [80])


async def test_container_statuses_come_with_it_where_there_are_events(clock: VirtualClock) -> None:
    for supports_events in (True, False):
        async with FakeCri(clock, FakeCriOptions(supports_events=supports_events)) as cri:
            cri.add_image("app:1")
            await start(cri.client())
            reply = await cri.client().pod_sandbox_status(SandboxID(cri.sandboxes[0].id))
            assert len(reply.containers_statuses) == int(supports_events)

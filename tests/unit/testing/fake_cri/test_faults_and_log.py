"""Faults, the call log and the life of the fake itself."""

import asyncio

import pytest
from grpc import StatusCode

from pykubelet.base.errors import Transient, Unsupported
from pykubelet.kubelet.actuate.cri import CriClient, CriTimeout
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.fake_cri import FakeCri, FakeCriOptions, Fault, Script
from tests.unit.testing.fake_cri.build import pod, start


async def test_an_error_before_the_call_leaves_nothing(cri: FakeCri, client: CriClient) -> None:
    cri.inject(Fault("RunPodSandbox", code=StatusCode.UNAVAILABLE, details="no", times=2))
    for _ in range(2):
        with pytest.raises(Transient, match="RunPodSandbox ns/pod: no"):
            await client.run_pod_sandbox(pod())
    assert cri.sandboxes == []
    await client.run_pod_sandbox(pod())


async def test_call_with_a_lost_answer_has_its_effect(cri: FakeCri, client: CriClient) -> None:
    cri.inject(Fault("RunPodSandbox", code=StatusCode.UNAVAILABLE, after=True))
    with pytest.raises(Transient):
        await client.run_pod_sandbox(pod())
    assert [sandbox.pod for sandbox in cri.sandboxes] == ["ns/pod"]


async def test_only_the_target_is_hit(cri: FakeCri, client: CriClient) -> None:
    fault = cri.inject(Fault("RunPodSandbox", target="ns/b", code=StatusCode.UNKNOWN))
    await client.run_pod_sandbox(pod("a"))
    with pytest.raises(Transient):
        await client.run_pod_sandbox(pod("b"))
    assert fault.hits == 1


async def test_a_hanging_call_meets_its_deadline_in_virtual_time(
    cri: FakeCri, client: CriClient, clock: VirtualClock
) -> None:
    cri.inject(Fault("RunPodSandbox", hang=True))
    call = asyncio.ensure_future(client.run_pod_sandbox(pod()))
    await clock.advance(239)
    assert (call.done(), cri.pending) == (False, 1)
    await clock.advance(2)
    with pytest.raises(CriTimeout):
        await call
    assert (cri.pending, clock.sleepers) == (0, 0)


async def test_a_hanging_call_goes_on_when_released(cri: FakeCri, client: CriClient, clock: VirtualClock) -> None:
    fault = cri.inject(Fault("RunPodSandbox", hang=True))
    call = asyncio.ensure_future(client.run_pod_sandbox(pod()))
    await clock.advance(100)
    assert cri.sandboxes == []
    fault.release()
    assert await call == cri.sandboxes[0].id


async def test_slow_call_returns_after_its_delay(cri: FakeCri, client: CriClient, clock: VirtualClock) -> None:
    cri.inject(Fault("ListContainers", delay=5))
    call = asyncio.ensure_future(client.list_containers())
    await clock.advance(4.9)
    assert not call.done()
    await clock.advance(0.2)
    assert await call == []


async def test_a_removed_fault_is_over(cri: FakeCri, client: CriClient) -> None:
    fault = cri.inject(Fault("ListContainers", code=StatusCode.UNKNOWN))
    cri.remove_fault(fault)
    assert await client.list_containers() == []


async def test_calls_may_be_unknown(clock: VirtualClock) -> None:
    options = FakeCriOptions(supports_events=False, unsupported=frozenset({"RuntimeConfig"}))
    async with FakeCri(clock, options) as cri:
        with pytest.raises(Unsupported):
            await cri.client().runtime_config()
        with pytest.raises(Unsupported):
            await anext(cri.client().get_container_events())


async def test_the_log_names_what_calls_are_about(cri: FakeCri, client: CriClient, clock: VirtualClock) -> None:
    container = await start(client)
    await clock.advance(1)
    await client.container_status(container)
    await client.image_status(pb.ImageSpec(image="app:1"))
    await client.remove_container(ContainerID("nope"))
    await client.version()
    assert [(record.method, record.target) for record in cri.log] == [
        ("RunPodSandbox", "ns/pod"),
        ("CreateContainer", "ns/pod/app"),
        ("StartContainer", "ns/pod/app"),
        ("ContainerStatus", "ns/pod/app"),
        ("ImageStatus", "app:1"),
        ("RemoveContainer", "nope"),
        ("Version", ""),
    ]
    assert cri.log[3].time - cri.log[2].time == 1
    assert cri.calls("StartContainer", "RunPodSandbox") == ["ns/pod", "ns/pod/app"]


async def test_it_outlives_its_clients(cri: FakeCri) -> None:
    async with cri.client() as first:
        container = await start(first)
    async with cri.client() as second:
        assert [found.id for found in await second.list_containers()] == [container]


async def test_a_failing_test_fails_with_its_own_error(clock: VirtualClock) -> None:
    with pytest.raises(ZeroDivisionError):
        async with FakeCri(clock) as cri:
            cri.add_image("app:1")
            cri.script(Script(exit_after=1000))
            await start(cri.client())
            raise ZeroDivisionError
    assert clock.sleepers == 0


async def test_values_given_to_a_client_are_copies(cri: FakeCri, client: CriClient) -> None:
    config = pod()
    sandbox = await client.run_pod_sandbox(config)
    config.labels["app"] = "changed"
    (await client.list_pod_sandboxes())[0].labels["app"] = "changed"
    assert dict((await client.pod_sandbox_status(sandbox)).status.labels) == {"app": "pod"}

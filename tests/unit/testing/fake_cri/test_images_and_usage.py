"""Images, stats and metrics of the fake runtime."""

import asyncio

import pytest

from pykubelet.base.errors import NotFound, Transient
from pykubelet.kubelet.actuate.cri import CriClient, CriOptions
from pykubelet.kubelet.types.ids import SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.fake_cri import FakeCri, FakeImage, Script
from tests.unit.testing.fake_cri.build import pod, start


async def test_published_image_exists_after_its_pull_time(cri: FakeCri, client: CriClient, clock: VirtualClock) -> None:
    image = cri.publish_image("new:1", FakeImage(id="sha256:1", tags=[], pull_time=5))
    assert await client.image_status(pb.ImageSpec(image="new:1")) is None
    pull = asyncio.ensure_future(client.pull_image(pb.ImageSpec(image="new:1")))
    await clock.advance(4.9)
    assert await client.image_status(pb.ImageSpec(image="new:1")) is None
    await clock.advance(0.2)
    assert await pull == image.id
    found = await client.image_status(pb.ImageSpec(image=image.id))
    assert found is not None
    assert list(found.repo_tags) == ["new:1"]


async def test_only_published_images_can_be_pulled(client: CriClient) -> None:
    with pytest.raises(NotFound, match="failed to resolve reference"):
        await client.pull_image(pb.ImageSpec(image="nowhere:1"))


async def test_a_pull_may_need_credentials(cri: FakeCri, client: CriClient) -> None:
    cri.publish_image("private:1", FakeImage(id="sha256:1", tags=[], auth=("me", "secret")))
    spec = pb.ImageSpec(image="private:1")
    for auth in (None, pb.AuthConfig(username="me", password="wrong")):
        with pytest.raises(Transient, match="authorization failed"):
            await client.pull_image(spec, auth)
    assert await client.pull_image(spec, pb.AuthConfig(username="me", password="secret")) == "sha256:1"


async def test_a_pull_of_what_is_there_makes_no_second_one(cri: FakeCri, client: CriClient) -> None:
    await client.pull_image(pb.ImageSpec(image="app:1"))
    assert len(cri.images) == 1


async def test_image_status_has_user_id_or_user_name(cri: FakeCri, client: CriClient) -> None:
    cri.add_image("root:1", FakeImage(id="sha256:1", tags=[], uid=0))
    cri.add_image("named:1", FakeImage(id="sha256:2", tags=[], username="web"))
    root = await client.image_status(pb.ImageSpec(image="root:1"))
    named = await client.image_status(pb.ImageSpec(image="named:1"))
    assert root is not None
    assert named is not None
    assert (root.HasField("uid"), root.uid.value, root.username) == (True, 0, "")
    assert (named.HasField("uid"), named.username) == (False, "web")


async def test_usage_of_the_image_filesystem_is_reported(client: CriClient) -> None:
    info = await client.image_fs_info()
    assert info.image_filesystems[0].used_bytes.value == 1_000_000


async def test_stats_follow_the_script(cri: FakeCri, client: CriClient, clock: VirtualClock) -> None:
    cri.script(Script(cpu_cores=0.5, memory_bytes=4096))
    container = await start(client)
    await clock.advance(10)
    (stats,) = await client.list_container_stats()
    assert stats == await client.container_stats(container)
    assert stats.cpu.usage_core_nano_seconds.value == pytest.approx(5e9)
    assert stats.cpu.usage_nano_cores.value == 500_000_000
    assert stats.memory.working_set_bytes.value == 4096
    (pod_stats,) = await client.list_pod_sandbox_stats()
    assert pod_stats == await client.pod_sandbox_stats(SandboxID(cri.sandboxes[0].id))
    assert pod_stats.linux.cpu.usage_core_nano_seconds.value == pytest.approx(5e9)
    assert list(pod_stats.linux.containers) == [stats]


async def test_ended_containers_use_nothing(cri: FakeCri, client: CriClient) -> None:
    container = await start(client)
    cri.end_container(cri.containers[0])
    assert await client.list_container_stats() == []
    assert (await client.container_stats(container)).memory.working_set_bytes.value == 0


async def test_metrics_have_descriptors(client: CriClient) -> None:
    await start(client)
    described = {descriptor.name for descriptor in await client.list_metric_descriptors()}
    (metrics,) = await client.list_pod_sandbox_metrics()
    assert {metric.name for metric in metrics.container_metrics[0].metrics} == described


async def test_streamed_lists_equal_the_plain_ones(cri: FakeCri) -> None:
    plain, streaming = cri.client(), cri.client(CriOptions(list_streaming=True))
    await start(plain)
    await plain.run_pod_sandbox(pod("other"))
    cri.add_image("other:1")
    assert await streaming.list_pod_sandboxes() == await plain.list_pod_sandboxes()
    assert await streaming.list_containers() == await plain.list_containers()
    assert await streaming.list_images() == await plain.list_images()
    assert await streaming.list_container_stats() == await plain.list_container_stats()
    assert await streaming.list_pod_sandbox_stats() == await plain.list_pod_sandbox_stats()
    assert await streaming.list_pod_sandbox_metrics() == await plain.list_pod_sandbox_metrics()
    assert len(cri.calls("StreamContainers", "StreamImages")) == 2

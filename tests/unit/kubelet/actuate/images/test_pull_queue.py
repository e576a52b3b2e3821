"""Shared pulls, limits of pulls, and tries with credentials."""

import asyncio

import pytest

from pykubelet.kubelet.actuate.actuate_types import ImageError, ImageReason
from pykubelet.kubelet.actuate.images import ImageConfig
from pykubelet.testing.fake_cri import FakeImage
from tests.unit.kubelet.actuate.images.kit import KIND, Kit, container, pod


async def test_pods_share_a_pull(kit: Kit) -> None:
    manager = kit.manager()
    kit.cri.publish_image("app:1", FakeImage("sha256:1", [], pull_time=5))
    tasks = [asyncio.create_task(manager.ensure(pod(f"p{i}"), container("app:1"), KIND)) for i in range(4)]
    await kit.clock.advance(5)
    assert set(await asyncio.gather(*tasks)) == {"sha256:1"}
    assert kit.cri.calls("PullImage") == ["app:1"]
    assert sum(reason == "Pulled" for _, reason, _ in kit.recorder.events) == 4


async def test_a_shared_pull_survives_the_end_of_the_pod_that_began_it(kit: Kit) -> None:
    manager = kit.manager()
    kit.cri.publish_image("app:1", FakeImage("sha256:1", [], pull_time=5))
    first = asyncio.create_task(manager.ensure(pod("p0"), container("app:1"), KIND))
    second = asyncio.create_task(manager.ensure(pod("p1"), container("app:1"), KIND))
    await kit.clock.advance(1)
    first.cancel()
    await kit.clock.advance(6)
    assert await second == "sha256:1"


async def test_policy_always_and_other_credentials_do_not_share(kit: Kit) -> None:
    manager = kit.manager()
    kit.secrets.add("s", "docker.io", "u", "p")
    kit.cri.publish_image("app:1", FakeImage("sha256:1", [], pull_time=5))
    tasks = [
        asyncio.create_task(manager.ensure(pod("p0"), container("app:1", "Always"), KIND)),
        asyncio.create_task(manager.ensure(pod("p1"), container("app:1", "Always"), KIND)),
        asyncio.create_task(manager.ensure(pod("p2"), container("app:1"), KIND)),
        asyncio.create_task(manager.ensure(pod("p3", ["s"]), container("app:1"), KIND)),
    ]
    await kit.clock.advance(5)
    await asyncio.gather(*tasks)
    assert len(kit.cri.calls("PullImage")) == 4


@pytest.mark.parametrize(
    ("config", "seconds"),
    [
        (ImageConfig(parallel=1), 12),
        (ImageConfig(parallel=2), 6),
        (ImageConfig(parallel=None), 3),
        (ImageConfig(), 6),
    ],
)
async def test_pulls_are_bounded(kit: Kit, config: ImageConfig, seconds: int) -> None:
    manager = kit.manager(config)
    count = 8 if config == ImageConfig() else 4
    for i in range(count):
        kit.cri.publish_image(f"app:{i}", FakeImage(f"sha256:{i}", [], pull_time=3))
    tasks = [asyncio.create_task(manager.ensure(pod(f"p{i}"), container(f"app:{i}"), KIND)) for i in range(count)]
    await kit.clock.advance(seconds - 0.01)
    assert not all(task.done() for task in tasks)
    await kit.clock.advance(0.02)
    assert all(task.done() for task in tasks)
    last = kit.recorder.events[-1][2]
    assert last.startswith(f'Successfully pulled image "app:{count - 1}" in 3s ({seconds}s including waiting)')


async def test_pulls_beyond_five_a_second_are_refused_and_retried(kit: Kit) -> None:
    manager = kit.manager(ImageConfig(parallel=None))
    for i in range(11):
        kit.cri.publish_image(f"app:{i}")
    for i in range(10):
        await manager.ensure(pod(f"p{i}"), container(f"app:{i}"), KIND)
    with pytest.raises(ImageError, match="pull QPS exceeded") as refused:
        await manager.ensure(pod("p10"), container("app:10"), KIND)
    assert refused.value.reason == "ErrImagePull"
    assert len(kit.cri.calls("PullImage")) == 10
    await kit.clock.advance(10.1)
    await manager.ensure(pod("p10"), container("app:10"), KIND)


async def test_changed_limits_of_pulls_hold_for_the_next_ones(kit: Kit) -> None:
    manager = kit.manager(ImageConfig(parallel=1, registry_burst=1))
    for i in range(4):
        kit.cri.publish_image(f"app:{i}", FakeImage(f"sha256:{i}", [], pull_time=3))
    first = asyncio.create_task(manager.ensure(pod("p0"), container("app:0"), KIND))
    await kit.clock.advance(1)
    manager.reconfigure(ImageConfig(parallel=3, registry_qps=0))
    others = [asyncio.create_task(manager.ensure(pod(f"p{i}"), container(f"app:{i}"), KIND)) for i in (1, 2, 3)]
    await kit.clock.advance(2.01)
    assert first.done() and not others[0].done()
    await kit.clock.advance(1)
    assert [task.result() for task in others] == ["sha256:1", "sha256:2", "sha256:3"]
    manager.reconfigure(ImageConfig(parallel=1, registry_qps=1, registry_burst=1))
    kit.cri.publish_image("app:5")
    await manager.ensure(pod("p5"), container("app:5"), KIND)
    kit.cri.publish_image("app:6")
    with pytest.raises(ImageError, match="pull QPS exceeded"):
        await manager.ensure(pod("p6"), container("app:6"), KIND)


async def test_each_of_the_credentials_is_tried(kit: Kit) -> None:
    kit.cri.publish_image("r.io/team/app:1", FakeImage("sha256:1", [], auth=("good", "pw")))
    kit.secrets.add("special", "r.io/team", "bad", "pw")
    kit.secrets.add("general", "r.io", "good", "pw")
    ref = await kit.manager().ensure(pod("p", ["general", "special"]), container("r.io/team/app:1"), KIND)
    assert ref == "sha256:1"
    assert len(kit.cri.calls("PullImage")) == 2


async def test_all_credentials_failing_gives_all_errors(kit: Kit) -> None:
    kit.cri.publish_image("r.io/app:1", FakeImage("sha256:1", [], auth=("good", "pw")))
    kit.secrets.add("a", "r.io", "bad", "hunter2")
    kit.secrets.add("b", "r.io/app", "worse", "hunter2")
    error = await kit.fails(kit.manager(), pod("p", ["a", "b"]), container("r.io/app:1"))
    assert error.reason is ImageReason.ERR_IMAGE_PULL
    assert "authorization failed" in error.message
    assert "hunter2" not in error.message


async def test_pull_request_has_the_pods_identity(kit: Kit) -> None:
    kit.cri.publish_image("app:1")
    await kit.manager().ensure(pod(), container("app:1"), KIND)
    request = next(record.request for record in kit.cri.log if record.method == "PullImage")
    assert 'namespace: "shop"' in str(request)

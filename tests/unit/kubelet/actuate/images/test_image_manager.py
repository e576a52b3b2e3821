"""The image manager with the fake runtime, in virtual time."""

import asyncio
import base64
import json
from contextlib import suppress
from pathlib import Path

import pytest
from grpc import StatusCode

from pykubelet.base.errors import NotFound
from pykubelet.kubelet.actuate.actuate_types import ImageError, ImageReason
from pykubelet.kubelet.actuate.images import ImageConfig
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.models.core_v1 import Secret
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.testing.fake_cri import FakeImage, Fault
from tests.unit.kubelet.actuate.images.kit import KIND, Kit, container, pod


async def test_a_present_image_is_used(kit: Kit) -> None:
    image = kit.cri.add_image("app:1")
    assert await kit.manager().ensure(pod(), container("app:1"), KIND) == image.id
    assert kit.cri.calls("PullImage") == []
    message = 'Container image "app:1" already present on machine and can be accessed by the pod'
    assert kit.recorder.events == [("Normal", "Pulled", message)]
    assert kit.recorder.steps == []


async def test_recently_found_image_is_not_looked_up_again(kit: Kit) -> None:
    image = kit.cri.add_image("app:1")
    manager = kit.manager()
    await manager.present(container("app:1"))
    await manager.present(container("absent:1"))
    kit.cri.log.clear()
    assert await manager.ensure(pod(), container("app:1"), KIND) == image.id
    assert kit.cri.calls("ImageStatus") == []
    await kit.clock.advance(1)
    await manager.ensure(pod(), container("app:1"), KIND)
    assert len(kit.cri.calls("ImageStatus")) == 1


async def test_present_sends_no_events_and_pulls_nothing(kit: Kit) -> None:
    image = kit.cri.add_image("here:1")
    kit.cri.publish_image("there:1")
    manager = kit.manager()
    assert await manager.present(container("here:1")) == image.id
    assert await manager.present(container("there:1")) is None
    assert await manager.present(container("here:1", "Always")) is None
    assert kit.recorder.events == []
    assert kit.cri.calls("PullImage") == []


async def test_a_missing_image_is_pulled(kit: Kit) -> None:
    image = kit.cri.publish_image("app:latest", FakeImage("sha256:1", [], size=1234, pull_time=2.5))
    ensure = asyncio.create_task(kit.manager().ensure(pod(), container("app"), KIND))
    await kit.clock.advance(3)
    assert await ensure == image.id
    assert kit.recorder.events == [
        ("Normal", "Pulling", 'Pulling image "app"'),
        (
            "Normal",
            "Pulled",
            'Successfully pulled image "app" in 2.5s (2.5s including waiting). Image size: 1234 bytes.',
        ),
    ]
    assert kit.recorder.steps == ["begin pull app", "end pull app"]


async def test_always_asks_the_registry_even_if_present(kit: Kit) -> None:
    kit.cri.add_image("app:1")
    await kit.manager().ensure(pod(), container("app:1", "Always"), KIND)
    assert kit.cri.calls("PullImage") == ["app:1"]


async def test_policy_never_refuses_missing_image(kit: Kit) -> None:
    kit.cri.publish_image("app:1")
    error = await kit.fails(kit.manager(), pod(), container("app:1", "Never"))
    message = 'Container image "app:1" is not present with pull policy of Never'
    assert (error.reason, error.message, error.transient) == (ImageReason.ERR_IMAGE_NEVER_PULL, message, False)
    assert kit.recorder.events == [("Warning", "ErrImageNeverPull", message)]
    assert kit.cri.calls("PullImage") == []


async def test_invalid_image_name_is_refused(kit: Kit) -> None:
    error = await kit.fails(kit.manager(), pod(), container("BAD"))
    assert error.reason is ImageReason.INVALID_IMAGE_NAME
    assert error.message.startswith('Failed to apply default image tag "BAD": couldn\'t parse image name "BAD": ')
    assert kit.recorder.events == [("Warning", "InspectFailed", error.message)]
    assert kit.cri.log == []


@pytest.mark.parametrize(
    ("image", "policy", "counted"),
    [
        ("here:1", "IfNotPresent", ("IfNotPresent", True, False)),
        ("here:1", "Never", ("Never", True, False)),
        ("here:1", "Always", ("Always", None, True)),
        ("there:1", "IfNotPresent", ("IfNotPresent", False, True)),
        ("there:1", "Never", ("Never", False, None)),
        ("BAD", "IfNotPresent", ("IfNotPresent", None, None)),
    ],
)
async def test_request_for_an_image_is_counted_with_what_was_known(
    kit: Kit, image: str, policy: str, counted: tuple[str, bool | None, bool | None]
) -> None:
    kit.cri.add_image("here:1")
    kit.cri.publish_image("there:1")
    with suppress(ImageError):
        await kit.manager().ensure(pod(), container(image, policy), KIND)
    assert kit.recorder.requests == [counted]


async def test_a_failing_inspection_is_reported(kit: Kit) -> None:
    kit.cri.inject(Fault("ImageStatus", code=StatusCode.UNKNOWN, details="disk on fire"))
    error = await kit.fails(kit.manager(), pod(), container("app:1"))
    assert (error.reason, error.transient) == (ImageReason.IMAGE_INSPECT_ERROR, True)
    assert error.message == 'Failed to inspect image "app:1": disk on fire'
    assert kit.recorder.events == [("Warning", "InspectFailed", error.message)]


async def test_a_failed_pull_backs_off_and_recovers(kit: Kit) -> None:
    manager = kit.manager()
    fault = kit.cri.inject(Fault("PullImage", code=StatusCode.UNKNOWN, details="no route to host"))
    image = kit.cri.publish_image("app:1")
    begin = kit.clock.monotonic()
    error = await kit.fails(manager, pod(), container("app:1"))
    assert (error.reason, error.message, error.transient) == (
        ImageReason.ERR_IMAGE_PULL,
        "no route to host",
        False,
    )
    assert error.retry_at == begin + 10
    assert kit.recorder.take()[-1] == ("Warning", "Failed", 'Failed to pull image "app:1": no route to host')
    assert kit.recorder.steps[-1] == "end pull app no route to host"

    await kit.clock.advance(4)
    error = await kit.fails(manager, pod(), container("app:1"))
    assert (error.reason, error.transient, error.retry_at) == (ImageReason.IMAGE_PULL_BACK_OFF, True, begin + 10)
    assert error.message == 'Back-off pulling image "app:1": ErrImagePull: no route to host'
    assert kit.recorder.take() == [("Normal", "BackOff", 'Back-off pulling image "app:1"')]
    assert kit.cri.calls("PullImage") == ["app:1"]

    await kit.clock.advance(6)
    error = await kit.fails(manager, pod(), container("app:1"))
    assert (error.reason, error.retry_at) == (ImageReason.ERR_IMAGE_PULL, begin + 10 + 20)

    kit.cri.remove_fault(fault)
    await kit.clock.advance(20)
    assert await manager.ensure(pod(), container("app:1"), KIND) == image.id


async def test_back_off_grows_to_five_minutes(kit: Kit) -> None:
    manager = kit.manager()
    delays = []
    for _ in range(8):
        error = await kit.fails(manager, pod(), container("app:1"))
        assert error.retry_at is not None
        delays.append(error.retry_at - kit.clock.monotonic())
        await kit.clock.advance(delays[-1])
    assert delays == [10, 20, 40, 80, 160, 300, 300, 300]


async def test_back_off_is_of_one_pod_and_image(kit: Kit) -> None:
    manager = kit.manager()
    kit.cri.publish_image("app:2")
    await kit.fails(manager, pod(), container("app:1"))
    await manager.ensure(pod(), container("app:2"), KIND)
    error = await kit.fails(manager, pod("other"), container("app:1"))
    assert error.reason is ImageReason.ERR_IMAGE_PULL


async def test_forgetting_a_pod_ends_its_back_off(kit: Kit) -> None:
    manager = kit.manager()
    await kit.fails(manager, pod(), container("app:1"))
    manager.forget(PodUID("uid-web"))
    assert (await kit.fails(manager, pod(), container("app:1"))).reason is ImageReason.ERR_IMAGE_PULL


async def test_pull_error_with_other_code_has_the_code_in_its_message(kit: Kit) -> None:
    kit.cri.inject(Fault("PullImage", code=StatusCode.NOT_FOUND, details="app:1: not found"))
    error = await kit.fails(kit.manager(), pod(), container("app:1"))
    assert error.message == "rpc error: code = NotFound desc = app:1: not found"


async def test_special_errors_get_their_own_reason(kit: Kit) -> None:
    kit.cri.inject(Fault("PullImage", code=StatusCode.UNKNOWN, details="RegistryUnavailable: 503"))
    error = await kit.fails(kit.manager(), pod(), container("app:1"))
    assert error.reason is ImageReason.REGISTRY_UNAVAILABLE
    assert error.message == "image pull failed for app:1 because the registry is unavailable: 503"


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
        (ImageConfig(serialize=True), 12),
        (ImageConfig(max_parallel_pulls=2), 6),
        (ImageConfig(max_parallel_pulls=None), 3),
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
    manager = kit.manager(ImageConfig(max_parallel_pulls=None))
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


async def test_each_of_the_credentials_is_tried(kit: Kit) -> None:
    kit.cri.publish_image("r.io/team/app:1", FakeImage("sha256:1", [], auth=("good", "pw")))
    kit.secrets.add("special", "r.io/team", "bad", "pw")
    kit.secrets.add("general", "r.io", "good", "pw")
    ref = await kit.manager().ensure(pod("p", ["general", "special"]), container("r.io/team/app:1"), KIND)
    assert ref == "sha256:1"
    assert len(kit.cri.calls("PullImage")) == 2


async def test_credentials_of_the_node_are_tried_after_those_of_the_pod(kit: Kit, tmp_path: Path) -> None:
    kit.cri.publish_image("r.io/team/app:1", FakeImage("sha256:1", [], auth=("good", "pw")))
    kit.secrets.add("own", "r.io/team", "bad", "pw")
    kit.node = (tmp_path / "config.json",)
    auth = base64.b64encode(b"good:pw").decode()
    kit.node[0].write_text(json.dumps({"auths": {"r.io": {"auth": auth}}}))
    manager = kit.manager()
    assert await manager.ensure(pod("p", ["own"]), container("r.io/team/app:1"), KIND) == "sha256:1"
    assert len(kit.cri.calls("PullImage")) == 2
    assert await manager.ensure(pod("q"), container("r.io/team/app:1", "Always"), KIND) == "sha256:1"


async def test_all_credentials_failing_gives_all_errors(kit: Kit) -> None:
    kit.cri.publish_image("r.io/app:1", FakeImage("sha256:1", [], auth=("good", "pw")))
    kit.secrets.add("a", "r.io", "bad", "hunter2")
    kit.secrets.add("b", "r.io/app", "worse", "hunter2")
    error = await kit.fails(kit.manager(), pod("p", ["a", "b"]), container("r.io/app:1"))
    assert error.reason is ImageReason.ERR_IMAGE_PULL
    assert "authorization failed" in error.message
    assert "hunter2" not in error.message


async def test_a_missing_secret_is_an_event_and_the_pull_is_tried(kit: Kit) -> None:
    kit.cri.publish_image("app:1")
    await kit.manager().ensure(pod("p", ["gone", ""]), container("app:1"), KIND)
    assert (
        "Warning",
        "FailedToRetrieveImagePullSecret",
        "Unable to retrieve some image pull secrets (gone); attempting to pull the image may not succeed.",
    ) in kit.recorder.events


async def test_a_broken_secret_fails_the_pull_by_name(kit: Kit) -> None:
    kit.secrets.found["bad"] = Secret(
        metadata=ObjectMeta(name="bad", namespace="shop"),
        type="kubernetes.io/dockerconfigjson",
        data={".dockerconfigjson": b"hunter2"},
    )
    error = await kit.fails(kit.manager(), pod("p", ["bad"]), container("app:1"))
    assert error.reason is ImageReason.ERR_IMAGE_PULL
    assert "pull secret shop/bad" in error.message
    assert "hunter2" not in error.message


async def test_facts_come_from_the_runtime_once(kit: Kit) -> None:
    kit.cri.add_image("app:1", FakeImage("sha256:1", [], size=77, uid=1000))
    manager = kit.manager()
    ref = await manager.ensure(pod(), container("app:1"), KIND)
    kit.cri.log.clear()
    facts = await manager.image_facts(ref)
    assert (facts.id, facts.uid, facts.username, facts.size) == ("sha256:1", 1000, "", 77)
    assert kit.cri.log == []
    with pytest.raises(NotFound, match="nope"):
        await manager.image_facts("nope")


async def test_an_image_that_names_its_user_has_no_uid(kit: Kit) -> None:
    kit.cri.add_image("app:1", FakeImage("sha256:1", [], username="daemon"))
    facts = await kit.manager().image_facts("app:1")
    assert (facts.uid, facts.username) == (None, "daemon")


async def test_pull_request_has_the_pods_identity(kit: Kit) -> None:
    kit.cri.publish_image("app:1")
    await kit.manager().ensure(pod(), container("app:1"), KIND)
    request = next(record.request for record in kit.cri.log if record.method == "PullImage")
    assert 'namespace: "shop"' in str(request)


async def test_images_of_volumes_are_ensured_too(kit: Kit) -> None:
    kit.cri.publish_image("data:latest")
    ref = await kit.manager().ensure_volume(pod(), "data", "")
    assert ref == kit.cri.images[0].id
    assert kit.recorder.steps[0] == "begin pull "


async def test_changed_limits_of_pulls_hold_for_the_next_ones(kit: Kit) -> None:
    manager = kit.manager(ImageConfig(serialize=True, registry_burst=1))
    for i in range(4):
        kit.cri.publish_image(f"app:{i}", FakeImage(f"sha256:{i}", [], pull_time=3))
    first = asyncio.create_task(manager.ensure(pod("p0"), container("app:0"), KIND))
    await kit.clock.advance(1)
    manager.reconfigure(ImageConfig(max_parallel_pulls=3, registry_qps=0))
    others = [asyncio.create_task(manager.ensure(pod(f"p{i}"), container(f"app:{i}"), KIND)) for i in (1, 2, 3)]
    await kit.clock.advance(2.01)
    assert first.done() and not others[0].done()
    await kit.clock.advance(1)
    assert [task.result() for task in others] == ["sha256:1", "sha256:2", "sha256:3"]
    manager.reconfigure(ImageConfig(serialize=True, registry_qps=1, registry_burst=1))
    kit.cri.publish_image("app:5")
    await manager.ensure(pod("p5"), container("app:5"), KIND)
    kit.cri.publish_image("app:6")
    with pytest.raises(ImageError, match="pull QPS exceeded"):
        await manager.ensure(pod("p6"), container("app:6"), KIND)

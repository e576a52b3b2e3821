"""Events and errors by which a pod is told about a pull of its image."""

import asyncio

from grpc import StatusCode

from pykubelet.kubelet.actuate.actuate_types import ImageReason
from pykubelet.testing.fake_cri import FakeImage, Fault
from tests.unit.kubelet.actuate.images.kit import KIND, Kit, container, pod


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


async def test_pull_error_with_other_code_has_the_code_in_its_message(kit: Kit) -> None:
    kit.cri.inject(Fault("PullImage", code=StatusCode.NOT_FOUND, details="app:1: not found"))
    error = await kit.fails(kit.manager(), pod(), container("app:1"))
    assert error.message == "rpc error: code = NotFound desc = app:1: not found"


async def test_special_errors_get_their_own_reason(kit: Kit) -> None:
    kit.cri.inject(Fault("PullImage", code=StatusCode.UNKNOWN, details="RegistryUnavailable: 503"))
    error = await kit.fails(kit.manager(), pod(), container("app:1"))
    assert error.reason is ImageReason.REGISTRY_UNAVAILABLE
    assert error.message == "image pull failed for app:1 because the registry is unavailable: 503"

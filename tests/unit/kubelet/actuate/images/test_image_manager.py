"""The image manager with the fake runtime: pull policies and presence."""

from contextlib import suppress

import pytest
from grpc import StatusCode

from pykubelet.kubelet.actuate.actuate_types import ImageError, ImageReason
from pykubelet.testing.fake_cri import Fault
from tests.unit.kubelet.actuate.images.kit import KIND, Kit, container, pod


async def test_a_present_image_is_used(kit: Kit) -> None:
    image = kit.cri.add_image("app:1")
    assert await kit.manager().ensure(pod(), container("app:1"), KIND) == image.id
    assert kit.cri.calls("PullImage") == []
    message = 'Container image "app:1" already present on machine and can be accessed by the pod'
    assert kit.recorder.events == [("Normal", "Pulled", message)]
    assert kit.recorder.steps == []


async def test_present_sends_no_events_and_pulls_nothing(kit: Kit) -> None:
    image = kit.cri.add_image("here:1")
    kit.cri.publish_image("there:1")
    manager = kit.manager()
    assert await manager.present(container("here:1")) == image.id
    assert await manager.present(container("there:1")) is None
    assert await manager.present(container("here:1", "Always")) is None
    assert kit.recorder.events == []
    assert kit.cri.calls("PullImage") == []


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


async def test_images_of_volumes_are_ensured_too(kit: Kit) -> None:
    kit.cri.publish_image("data:latest")
    ref = await kit.manager().ensure_volume(pod(), "data", "")
    assert ref == kit.cri.images[0].id
    assert kit.recorder.steps[0] == "begin pull "

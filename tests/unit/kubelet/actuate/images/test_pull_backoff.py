"""Back-off after failed pulls, in virtual time."""

from grpc import StatusCode

from pykubelet.kubelet.actuate.actuate_types import ImageReason
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.testing.fake_cri import Fault
from tests.unit.kubelet.actuate.images.kit import KIND, Kit, container, pod


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

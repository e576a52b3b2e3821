"""Contract of the runtime itself, its images and its events."""

import asyncio
import os
import time
from contextlib import suppress

import pytest

from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import PykubeletError, Unsupported
from pykubelet.kubelet.actuate.cri import CriClient, CriError, RuntimeEvents
from pykubelet.kubelet.actuate.cri.transport import StreamCall
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.kubelet.types.runtime_events import RuntimeEvent, RuntimeEventKind
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.patience import PATIENCE
from tests.contract.cri.rig import ENDPOINT, FAILING, HAVE_REAL, IMAGE, Runtime


@pytest.mark.runtime
@pytest.mark.skipif(not HAVE_REAL, reason=f"the CRI contract needs a runtime: set {ENDPOINT} and {IMAGE}")
async def test_there_is_a_real_runtime() -> None:
    async with CriClient.connect(os.environ[ENDPOINT]) as client:
        assert (await client.version()).runtime_name != "fake"


async def test_version_has_a_runtime_name_and_api_v1(runtime: Runtime) -> None:
    version = await runtime.client.version()
    assert version.runtime_name
    assert version.runtime_api_version == "v1"


async def test_status_has_both_required_conditions_met(runtime: Runtime) -> None:
    conditions = {c.type: c.status for c in (await runtime.client.status()).status.conditions}
    assert conditions["RuntimeReady"]
    assert conditions["NetworkReady"]
    assert (await runtime.client.status(verbose=True)).info


async def test_runtime_config_is_given_or_unsupported(runtime: Runtime) -> None:
    with suppress(Unsupported):
        driver = (await runtime.client.runtime_config()).linux.cgroup_driver
        assert driver in (pb.SYSTEMD, pb.CGROUPFS)


async def test_pod_cidr_is_accepted(runtime: Runtime) -> None:
    await runtime.client.update_runtime_config("10.99.0.0/24")


async def test_an_unknown_call_is_unsupported(runtime: Runtime) -> None:
    call = StreamCall("runtime.v1.RuntimeService", "NoSuchCall", "none", pb.VersionRequest, pb.VersionResponse)
    with pytest.raises(Unsupported, match="NoSuchCall"):
        await anext(runtime.client.stream(call, pb.VersionRequest()))


async def test_image_is_found_by_name_and_by_id(runtime: Runtime) -> None:
    image = await runtime.client.image_status(pb.ImageSpec(image=runtime.image))
    assert image is not None
    assert runtime.image in image.repo_tags
    assert image.size > 0
    by_id = await runtime.client.image_status(pb.ImageSpec(image=image.id))
    assert by_id is not None
    assert by_id.id == image.id
    assert image.id in {found.id for found in await runtime.client.list_images()}


async def test_absent_image_has_no_status_and_may_be_removed(runtime: Runtime) -> None:
    absent = pb.ImageSpec(image="localhost/no/such:image")
    assert await runtime.client.image_status(absent) is None
    await runtime.client.remove_image(absent)


async def test_an_image_that_cannot_be_pulled(runtime: Runtime) -> None:
    # No process listens on port 1.
    with pytest.raises(CriError, match="failed to resolve reference"):
        await runtime.client.pull_image(pb.ImageSpec(image="127.0.0.1:1/no/such:image"))


async def test_image_filesystem_has_an_absolute_mount_point(runtime: Runtime) -> None:
    (usage, *_) = (await runtime.client.image_fs_info()).image_filesystems
    assert usage.fs_id.mountpoint.startswith("/")


async def test_events_report_start_and_exit(runtime: Runtime) -> None:
    events: list[RuntimeEvent] = []
    changed = asyncio.Event()

    def deliver(event: RuntimeEvent) -> None:
        events.append(event)
        changed.set()

    async def reported(container: ContainerID, kind: RuntimeEventKind) -> None:
        async with asyncio.timeout(5 * PATIENCE):
            while (container, kind) not in {(event.container_id, event.kind) for event in events}:
                changed.clear()
                await changed.wait()

    watch = asyncio.ensure_future(RuntimeEvents(runtime.client, SystemClock()).watch(deliver))
    try:
        # The stream is requested before these calls, on the same connection.
        for _ in range(10):
            await runtime.client.version()
        container = await runtime.start(FAILING)
        await reported(container, RuntimeEventKind.STARTED)
        await reported(container, RuntimeEventKind.STOPPED)
        status = await runtime.status(container)
        assert (status.state, status.exit_code) == (pb.CONTAINER_EXITED, 3)
        assert time.time_ns() - status.finished_at < 2_000_000_000
        assert not watch.done()
    finally:
        watch.cancel()
        with suppress(asyncio.CancelledError, PykubeletError):
            await watch

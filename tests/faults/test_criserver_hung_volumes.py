"""Volumes on an unresponsive file system: they delay their own pods, and no others."""

import asyncio
import errno
import os
import select
import struct
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pykubelet.base.errors import PykubeletError
from pykubelet.linux.filesystems.mounts import detach, mount
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.fake_cri import Script
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.runtime import PrivateRuntime
from pykubelet.testing.wait import until
from tests.contract.cri.rig import STUBBORN, Program, Runtime, connected

pytestmark = [
    pytest.mark.root,
    pytest.mark.runtime,
    pytest.mark.only_on("criserver"),
    pytest.mark.timeout(240),
    pytest.mark.skipif(not Path("/dev/fuse").exists(), reason="needs /dev/fuse"),
]

_INIT, _UNANSWERED = 26, (2, 36, 42)
_PARALLEL_LOOKUPS = 1 << 18


class HungVolume:
    """A FUSE mount whose server reads requests and never replies (linux/fuse.h)."""

    def __init__(self, point: Path) -> None:
        self.point = point
        self.hanging = 0

    def serve(self, device: int, end: int) -> None:
        """Serve until ``end`` is readable."""
        while end not in select.select([device, end], [], [])[0]:
            try:
                request = os.read(device, 1 << 18)
            except OSError as error:
                if error.errno in (errno.EAGAIN, errno.ENOENT, errno.EINTR):
                    continue
                return
            _, opcode, unique = struct.unpack_from("<IIQ", request)
            if opcode == _INIT:
                answer = struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, _PARALLEL_LOOKUPS, 99, 99, 4096, 1, 1, 0, 0)
                os.write(device, struct.pack("<IiQ", 16 + len(answer), 0, unique) + answer)
            elif opcode not in _UNANSWERED:
                self.hanging += 1


@contextmanager
def hung_volume(point: Path) -> Iterator[HungVolume]:
    """End the server; hanging calls fail."""
    point.mkdir()
    volume = HungVolume(point)
    device, end = os.open("/dev/fuse", os.O_RDWR | os.O_NONBLOCK), os.eventfd(0)
    mount("test", str(point), "fuse", data=f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other")
    thread = threading.Thread(target=volume.serve, args=(device, end), name="fuse")
    thread.start()
    try:
        yield volume
    finally:
        os.eventfd_write(end, 1)
        thread.join()
        os.close(device)
        os.close(end)
        detach(str(point))


@pytest.fixture
async def runtime(daemon: PrivateRuntime, tmp_path: Path) -> AsyncIterator[Runtime]:
    async with connected(daemon.endpoint, tmp_path) as made:
        yield made


_PODS = 3 * (os.cpu_count() or 1) + 8
"""Number of pods, larger than a shared thread pool would be on this machine."""


async def test_pods_on_a_hung_volume_delay_no_other_pod(runtime: Runtime, tmp_path: Path) -> None:
    """Their containers wait for a check of the volume; meanwhile another pod is created, started and used by exec."""
    running = await runtime.start(STUBBORN)
    box = await runtime.sandbox(runtime.pod_config(attempt=1))
    with hung_volume(tmp_path / "volume") as volume:

        async def create(number: int) -> None:
            config = runtime.container_config(Program(f"hung-{number}", ("true",), Script()))
            config.mounts.add(container_path="/data", host_path=f"{volume.point}/{number}")
            await runtime.client.create_container(box, config, runtime.pod_config(attempt=1))

        hung = [asyncio.create_task(create(number), name=f"hung-{number}") for number in range(_PODS)]
        try:
            await until(lambda: volume.hanging >= min(_PODS, (os.cpu_count() or 1) + 4))
            async with asyncio.timeout(10 * PATIENCE):
                assert (await runtime.client.exec_sync(running, ["true"], 10)).exit_code == 0
                other = await runtime.sandbox(runtime.pod_config(attempt=2))
                started = await runtime.create(other, STUBBORN)
                await runtime.client.start_container(started)
                await runtime.client.stop_container(running, 0)
            assert not any(task.done() for task in hung)
        except BaseException:
            for task in hung:
                task.cancel()
            await asyncio.wait(hung)
            raise
    # The volume has been removed, so the calls do not wait any more.
    ended = await asyncio.gather(*hung, return_exceptions=True)
    assert all(end is None or isinstance(end, PykubeletError) for end in ended), ended


async def test_pod_on_a_hung_volume_is_removed_while_its_creation_hangs(runtime: Runtime, tmp_path: Path) -> None:
    with hung_volume(tmp_path / "volume") as volume:
        box = await runtime.sandbox()
        config = runtime.container_config(STUBBORN)
        config.mounts.add(container_path="/data", host_path=f"{volume.point}/data")
        creation = asyncio.create_task(runtime.client.create_container(box, config, runtime.pod_config()), name="hung")
        await until(lambda: volume.hanging >= 1)
        async with asyncio.timeout(15 * PATIENCE):
            await runtime.client.stop_pod_sandbox(box)
            await runtime.client.remove_pod_sandbox(box)
        with pytest.raises(PykubeletError, match=r"creation of container .* was cancelled: its sandbox was"):
            await creation
    assert await runtime.client.list_containers(pb.ContainerFilter(pod_sandbox_id=box)) == []

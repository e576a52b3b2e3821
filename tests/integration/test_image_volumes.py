"""Volumes that an image declares: writable directories of the host with the image's content."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pykubelet.base.errors import PykubeletError
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.fake_cri import Script
from pykubelet.testing.ociimage import ImageSpec
from pykubelet.testing.runtime import PrivateRuntime
from pykubelet.testing.wait import until, until_answer
from tests.contract.cri.rig import STUBBORN, Program, Runtime, connected

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.only_on("criserver")]

_IMAGE = "localhost/pykubelet/volumes:1"
_BIG = 3 << 20
_LOOK = Program(
    "look",
    (
        "sh",
        "-c",
        "cat /data/given; readlink /data/link; stat -c '%a' /data; touch /data/mine && ls /data/mine; touch /x 2>&1; "
        "grep -c ' /data .*overlay' /proc/self/mounts; ls /covered; ls -d /covered/below 2>&1; sleep 600",
    ),
    Script(),
)


@pytest.fixture
async def runtime(daemon: PrivateRuntime, tmp_path: Path) -> AsyncIterator[Runtime]:
    spec = ImageSpec(
        _IMAGE,
        volumes=("/data", "/covered/below", "/empty"),
        files={"data/given": b"given\n", "data/big": os.urandom(_BIG)},
        links={"data/link": "/etc/passwd"},
    )
    await asyncio.to_thread(daemon.load, spec)
    async with connected(daemon.endpoint, tmp_path, _IMAGE) as made:
        yield made
        await made.clean()
        await made.client.remove_image(pb.ImageSpec(image=_IMAGE))


def _directory(daemon: PrivateRuntime, container: ContainerID) -> Path:
    return daemon.home / "root/storage/containers" / container


async def _start(runtime: Runtime, program: Program, *mounts: pb.Mount, read_only: bool) -> ContainerID:
    config = runtime.container_config(program)
    config.mounts.extend(mounts)
    config.linux.security_context.readonly_rootfs = read_only
    container = await runtime.client.create_container(await runtime.sandbox(), config, runtime.pod_config())
    await runtime.client.start_container(container)
    return container


async def test_volumes_are_writable_with_a_read_only_root_and_removed_with_the_container(
    runtime: Runtime, daemon: PrivateRuntime, tmp_path: Path
) -> None:
    covering = tmp_path / "covering"
    covering.mkdir()
    mount = pb.Mount(container_path="/covered", host_path=str(covering))
    container = await _start(runtime, _LOOK, mount, read_only=True)
    status = (await runtime.client.container_status(container)).status
    log = Path(status.log_path)
    await until(lambda: log.exists() and log.read_text().count("\n") >= 7)
    lines = [line.split(" ", 3)[3] for line in log.read_text().splitlines()]
    assert lines[:4] == ["given", "/etc/passwd", "755", "/data/mine"], lines
    assert "Read-only" in lines[4] and lines[5] == "0", lines
    assert "No such file" in lines[6], lines
    assert list(covering.iterdir()) == [], "a volume below a mount would write into it"
    place = _directory(daemon, container)
    assert sorted(path.name for path in (place / "volumes").iterdir()) == ["0", "1"]
    assert (place / "volumes/0/mine").exists() and not (place / "upper/data/mine").exists()

    async def counted() -> bool:
        usage = (await runtime.client.container_stats(container)).writable_layer
        return usage.used_bytes.value >= _BIG

    await until_answer(counted)
    await runtime.client.stop_container(container, 0)
    assert (place / "volumes/0/mine").exists()
    await runtime.client.remove_container(container)
    assert not place.exists()
    await until(lambda: not list((daemon.home / "root/storage/trash").iterdir()))


async def test_volume_that_does_not_fit_fails_the_creation_and_leaves_nothing(
    runtime: Runtime, daemon: PrivateRuntime
) -> None:
    """The image has a file where it declares a volume: the other volumes are not left behind."""
    spec = ImageSpec(_IMAGE, volumes=("/data", "/etc/passwd"), files={"data/given": b"x"})
    await asyncio.to_thread(daemon.load, spec)
    with pytest.raises(PykubeletError, match="passwd"):
        await runtime.create(await runtime.sandbox(), STUBBORN)
    assert list((daemon.home / "root/storage/containers").iterdir()) == []

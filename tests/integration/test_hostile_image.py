"""Images that attack the node: by links at mount points, by volumes, by their configuration."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pykubelet.base.errors import PykubeletError
from pykubelet.base.units import MIB
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.fake_cri import Script
from pykubelet.testing.ociimage import ImageSpec
from pykubelet.testing.runtime import PrivateRuntime
from tests.contract.cri.rig import STUBBORN, Program, Runtime, connected

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.only_on("criserver")]

_IMAGE = "localhost/pykubelet/hostile:1"
_LABELS = {
    "io.kubernetes.cri-o.TrySkipVolumeSELinuxLabel": "hostile-label",
    "run.oci.handler": "hostile-label",
    "--privileged": "hostile-label; touch /hostile",
    "io.kubernetes.cri.sandbox-id": "hostile-label",
}


@pytest.fixture
async def runtime(daemon: PrivateRuntime, tmp_path: Path) -> AsyncIterator[Runtime]:
    async with connected(daemon.endpoint, tmp_path, _IMAGE) as made:
        yield made
        await made.clean()
        await made.client.remove_image(pb.ImageSpec(image=_IMAGE))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (ImageSpec(_IMAGE, user="4294967296"), "out of range"),
        (ImageSpec(_IMAGE, user="4294967295"), "out of range"),
        (ImageSpec(_IMAGE, user="app", files={"etc/group": b"evil:x:0:app\n" * (100 * MIB // 13)}), "larger than"),
        (ImageSpec(_IMAGE, user="app", files={"etc/passwd": b"app:x:-1:0::/:\n"}), "app"),
    ],
    ids=["uid beyond", "no uid", "group bomb", "negative"],
)
async def test_users_that_are_refused(runtime: Runtime, daemon: PrivateRuntime, spec: ImageSpec, words: str) -> None:
    """CVE-2024-40635: no user id wraps around to root; the cost of reading /etc/group is bounded."""
    await asyncio.to_thread(daemon.load, spec)
    before = _peak(daemon)
    with pytest.raises(PykubeletError, match=words):
        await runtime.create(await runtime.sandbox(), STUBBORN)
    assert _peak(daemon) - before < 32 * MIB
    assert await runtime.client.list_containers(pb.ContainerFilter(pod_sandbox_id=runtime.sandboxes[0])) == []


def _peak(daemon: PrivateRuntime) -> int:
    """The server's maximum memory (VmHWM), in bytes."""
    text = Path(f"/proc/{daemon.pid()}/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0]) * 1024


async def test_a_hostile_image_stays_in_its_root(runtime: Runtime, daemon: PrivateRuntime, tmp_path: Path) -> None:
    """CVE-2024-5154 (files below /etc), CVE-2022-23648 (volumes); labels never reach a command of the node."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("the node's\n")
    links = {
        "etc/hostname": f"{outside}/hostname",
        "etc/resolv.conf": f"../../../../../../..{outside}/kept",
        "etc/hosts": f"{outside}/kept",
        "data": str(outside),
    }
    spec = ImageSpec(_IMAGE, labels=_LABELS, links=links, volumes=("/data/deep", "/data/../../../data"))
    daemon.load(spec)
    program = Program("look", ("sh", "-c", "cat /etc/hostname; ls /data; touch /data/mine; sleep 600"), Script())
    container = await runtime.start(program)
    result = await runtime.client.exec_sync(container, ["cat", "/etc/hostname"], 10)
    assert (result.stdout, result.exit_code) == (b"pod\n", 0)
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"kept": "the node's\n"}
    info = (await runtime.client.container_status(container, verbose=True)).info
    assert "hostile-label" not in info["info"]
    monitor = json.loads(info["info"])["monitor"]
    assert b"hostile-label" not in Path(f"/proc/{monitor}/cmdline").read_bytes()

"""An image that wants to reach the node: by links where files are mounted, by volumes, by what it says of itself."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.fake_cri import Script
from pykubelet.testing.ociimage import ImageSpec
from pykubelet.testing.runtime import PrivateRuntime
from pykubelet.testing.traces import remove_cgroups
from tests.contract.cri.support import CGROUP, Program, Runtime

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
    (tmp_path / "logs").mkdir()
    async with CriClient.connect(daemon.endpoint) as client:
        made = Runtime(client, _IMAGE, tmp_path / "logs")
        try:
            yield made
        finally:
            await made.clean()
            await client.remove_image(pb.ImageSpec(image=_IMAGE))
            remove_cgroups(CGROUP)


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

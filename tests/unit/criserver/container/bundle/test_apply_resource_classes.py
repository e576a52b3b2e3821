"""The files of resource classes, and what a container with a class gets or is told."""

import logging
import os
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.criserver.container.bundle.apply_resource_classes import apply_classes
from pykubelet.criserver.container.container_interfaces import ResourceClassFiles
from pykubelet.pb import runtime_v1_pb2 as pb

SPEC: dict[str, object] = {"linux": {"resources": {}}}


def apply(files: ResourceClassFiles, **classes: str) -> dict[str, object]:
    pod = pb.PodSandboxConfig()
    for kind, name in classes.items():
        pod.annotations[f"{kind}.resources.beta.kubernetes.io/pod"] = name
    return apply_classes(SPEC, pb.ContainerConfig(metadata=pb.ContainerMetadata(name="app")), pod, files)


def test_class_of_the_file_is_applied_to_block_devices_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    disks = [path for path in Path("/dev").iterdir() if path.is_block_device()]
    file = tmp_path / "blockio.yaml"
    file.write_text(
        "Classes:\n  slow:\n  - Weight: 20\n  - Devices: [/dev/null]\n    ThrottleReadBps: 1M\n"
        + "".join(f"  - Devices: [{disk}]\n    ThrottleWriteBps: 2M\n" for disk in disks[:1])
    )
    linux = apply(ResourceClassFiles(blockio=file), blockio="slow")["linux"]
    numbers = [disks[0].stat().st_rdev] if disks else []
    rates = [{"major": os.major(number), "minor": os.minor(number), "rate": 2_000_000} for number in numbers]
    expected = {"weight": 20} | ({"throttleWriteBpsDevice": rates} if rates else {})
    assert linux == {"resources": {"blockIO": expected}}
    assert [getattr(record, "pattern", "") for record in caplog.records] == ["/dev/null"]


def test_block_io_class_that_cannot_be_applied_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"container app has the block I/O class 'slow', .* set blockio_config_file"):
        apply(ResourceClassFiles(), blockio="slow")
    assert apply(ResourceClassFiles(ignore_blockio=True), blockio="slow") == SPEC
    file = tmp_path / "blockio.yaml"
    with pytest.raises(Invalid, match="cannot be read: No such file"):
        apply(ResourceClassFiles(blockio=file), blockio="slow")
    file.write_text("Classes: {fast: []}")
    with pytest.raises(NotFound, match=r"block I/O class 'slow' is not in .*; its classes: fast"):
        apply(ResourceClassFiles(blockio=file), blockio="slow")
    file.write_text("Classes: {slow: [{Wait: 1}]}")
    with pytest.raises(Invalid, match=r"blockio\.yaml: .*Wait"):
        apply(ResourceClassFiles(blockio=file), blockio="slow")


@pytest.mark.parametrize("pattern", ["/", "/dev/a**b"])
def test_pattern_that_cannot_be_one_is_named(tmp_path: Path, pattern: str) -> None:
    file = tmp_path / "blockio.yaml"
    file.write_text(f"Classes: {{slow: [{{Devices: ['{pattern}'], ThrottleReadBps: 1M}}]}}")
    with pytest.raises(Invalid, match=r"blockio\.yaml: Classes\.slow: Devices: "):
        apply(ResourceClassFiles(blockio=file), blockio="slow")


def test_rdt_class_is_a_group_of_resctrl(tmp_path: Path) -> None:
    files = ResourceClassFiles(resctrl=tmp_path)
    with pytest.raises(Invalid, match="is not mounted; mount -t resctrl"):
        apply(files, rdt="gold")
    assert apply(ResourceClassFiles(resctrl=tmp_path, ignore_rdt=True), rdt="gold") == SPEC
    (tmp_path / "schemata").touch()
    with pytest.raises(NotFound, match="RDT class 'gold' is no group"):
        apply(files, rdt="gold")
    (tmp_path / "gold").mkdir()
    (tmp_path / "gold" / "schemata").touch()
    assert apply(files, rdt="gold") == {"linux": {"resources": {}, "intelRdt": {"closID": "gold"}}}

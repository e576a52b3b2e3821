"""Preparation of volumes, seccomp profiles, devices and bundles."""

import os
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.criserver.container import prepare
from pykubelet.pb import runtime_v1_pb2 as pb

Context = pb.LinuxContainerSecurityContext


def test_volumes_stay_inside_the_root(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "data").symlink_to(outside)
    prepare.make_volumes(root, ("/data/deep", "/mounted", "/plain"), {"/mounted"})
    assert list(outside.iterdir()) == []
    assert (root / "plain").is_dir()
    assert not (root / "mounted").exists()


@pytest.mark.parametrize(
    "reference", ["", "../x.json", "/etc/x.json", "a/../../x.json", "missing.json", "bad.json", "fifo", ".", "large"]
)
def test_invalid_seccomp_profiles_are_rejected(tmp_path: Path, reference: str) -> None:
    directory = tmp_path / "seccomp"
    directory.mkdir()
    (tmp_path / "x.json").write_text("{}")
    (directory / "bad.json").write_text("[]")
    os.mkfifo(directory / "fifo")
    (directory / "large").write_bytes(b" " * (2 << 20) + b"{}")
    with pytest.raises(Invalid):
        prepare.read_profile(directory, reference)


def test_a_profile_is_read_by_relative_or_absolute_path(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text('{"defaultAction": "SCMP_ACT_LOG"}')
    for reference in ("p.json", str(tmp_path / "p.json")):
        assert prepare.read_profile(tmp_path, reference) == {"defaultAction": "SCMP_ACT_LOG"}


def test_devices_are_found_by_path_and_directory() -> None:
    (device,) = prepare.find_devices(
        pb.ContainerConfig(devices=[pb.Device(container_path="/dev/n", host_path="/dev/null", permissions="r")])
    )
    assert (device.target, device.kind, device.major, device.minor, device.access) == ("/dev/n", "c", 1, 3, "r")
    with pytest.raises(Invalid, match="not a device"):
        prepare.find_devices(pb.ContainerConfig(devices=[pb.Device(container_path="/d", host_path="/etc/passwd")]))


def test_bundle_is_written_read_and_removed(tmp_path: Path) -> None:
    prepare.write_bundle(tmp_path / "b", {"process": {"env": ["A=\udcff"]}})
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o700
    assert prepare.read_bundle(tmp_path / "b") == {"process": {"env": ["A=\udcff"]}}
    prepare.remove_bundle(tmp_path / "b")
    prepare.remove_bundle(tmp_path / "b")
    assert not (tmp_path / "b").exists()

"""Preparation of volumes, seccomp profiles, devices and bundles."""

import os
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.criserver.container.bundle import prepare
from pykubelet.criserver.spec import HandlerOptions
from pykubelet.pb import runtime_v1_pb2 as pb

Context = pb.LinuxContainerSecurityContext


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


def test_requested_devices_belong_to_the_security_context_if_the_server_wants_that() -> None:
    config = pb.ContainerConfig(devices=[pb.Device(container_path="/dev/n", host_path="/dev/null")])
    config.linux.security_context.run_as_user.value = 7
    own = HandlerOptions(device_ownership_from_security_context=True)
    of_host = os.stat("/dev/null").st_gid  # noqa: PTH116
    assert [(each.uid, each.gid) for each in prepare.find_devices(config)] == [(0, of_host)]
    assert [(each.uid, each.gid) for each in prepare.find_devices(config, own)] == [(7, of_host)]
    config.linux.security_context.run_as_group.value = 8
    assert [(each.uid, each.gid) for each in prepare.find_devices(config, own)] == [(7, 8)]


def test_privileged_container_gets_no_devices_of_the_host_if_its_handler_forbids_them() -> None:
    config = pb.ContainerConfig(devices=[pb.Device(container_path="/dev/n", host_path="/dev/null")])
    config.linux.security_context.privileged = True
    limited = HandlerOptions(privileged_without_host_devices=True)
    assert [each.target for each in prepare.find_devices(config, limited)] == ["/dev/n"]
    assert len(prepare.find_devices(config)) > 1


def test_bundle_is_written_read_and_removed(tmp_path: Path) -> None:
    prepare.write_bundle(tmp_path / "b", {"process": {"env": ["A=\udcff"]}})
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o700
    assert prepare.read_bundle(tmp_path / "b") == {"process": {"env": ["A=\udcff"]}}
    prepare.remove_bundle(tmp_path / "b")
    prepare.remove_bundle(tmp_path / "b")
    assert not (tmp_path / "b").exists()

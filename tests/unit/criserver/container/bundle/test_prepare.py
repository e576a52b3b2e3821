"""Preparation of volumes, seccomp profiles, devices and bundles."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.base.errors import Conflict, Invalid, NotFound
from pykubelet.base.files.deep_path import make_directories
from pykubelet.criserver.container.bundle import prepare
from pykubelet.criserver.spec import HandlerOptions
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.deep_directories import depth_of, make_deep, path_of, place_for_deep_ones

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


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    with place_for_deep_ones(tmp_path) as made:
        yield made


def test_missing_sources_of_mounts_and_log_directories_are_created_at_any_depth(place: Path) -> None:
    sources = [f"{place}/{name}/{path_of(1500)}" for name in ("x", "y", "log")]
    config = pb.ContainerConfig(mounts=[pb.Mount(container_path="/v", host_path=each) for each in sources[:2]])
    assert prepare.prepare_node_paths(config, f"{sources[2]}/0.log") == ()
    assert [depth_of(place / name) for name in ("x", "y", "log")] == [1500, 1500, 1500]


def test_source_of_a_mount_that_the_kernel_cannot_mount_is_refused_and_not_created(place: Path) -> None:
    mount = pb.Mount(container_path=f"/{path_of(5000)}", host_path=f"{place}/x/{path_of(5000)}")
    with pytest.raises(Invalid, match=r"^mount /a/.*: the host path has .* bytes, and the kernel takes"):
        prepare.make_sources([mount])
    assert list(place.iterdir()) == []


def test_file_in_the_place_of_a_log_directory_is_a_conflict(place: Path) -> None:
    (place / "log").touch()
    with pytest.raises(Conflict, match="the directory of its log"):
        prepare.prepare_node_paths(pb.ContainerConfig(), f"{place}/log/0.log")


@pytest.mark.parametrize("depth", [1500, 2100])
def test_deep_directory_below_those_of_devices_hides_no_device(
    place: Path, monkeypatch: pytest.MonkeyPatch, depth: int
) -> None:
    """A privileged pod can create one in /dev, and all devices there are those of every privileged container."""
    make_deep(place, depth)
    (place / "gpu").mkdir()
    (place / "gpu/card").touch()
    null = prepare.device_at(Path("/dev/null"), "/d/gpu/card", "rwm")
    monkeypatch.setattr(prepare, "device_at", lambda path, target, access: null if path.name == "card" else None)
    asked = pb.ContainerConfig(devices=[pb.Device(container_path="/d", host_path=str(place))])
    assert prepare.find_devices(asked) == (null,)


def test_paths_of_devices_that_the_kernel_does_not_take_are_refused(place: Path) -> None:
    (place / "0").symlink_to("/dev/null")
    for number in range(1, 1501):
        (place / str(number)).symlink_to(str(number - 1))
    links = [f"{place}/{number}" for number in (50, 1500)]
    for path, error in (*((each, "too many links") for each in links), (f"/{path_of(5000)}", "has 10000 bytes")):
        with pytest.raises(Invalid, match=error):
            prepare.find_devices(pb.ContainerConfig(devices=[pb.Device(container_path="/d", host_path=path)]))
        shared = pb.Mount(container_path="/v", host_path=path, propagation=pb.PROPAGATION_HOST_TO_CONTAINER)
        with pytest.raises(Invalid, match=error):
            prepare.check_propagation([shared])


def test_sub_path_of_an_image_that_cannot_be_mounted_is_refused_in_the_same_words_for_each_attempt(place: Path) -> None:
    name = "n" * 200
    deep = "/".join([name] * 25)
    make_directories(f"{place}/{deep}", 0o755)
    (place / "file").touch()
    assert prepare.sub_path(place, name) == f"{place}/{name}"
    for path, text in (
        (deep, f"cannot mount subPath '{name[:80]}…' of an image: File name too long"),
        ("missing", "the image of a mount has no 'missing', its subPath"),
        (path_of(5000), f"the image of a mount has no '{path_of(5000)[:80]}…', its subPath"),
        ("file/x", "subPath 'file/x' of an image cannot be followed: too many directories or links"),
    ):
        with pytest.raises((NotFound, Invalid), match=f"^{re.escape(text)}"):
            prepare.sub_path(place, path)


def test_path_of_a_device_that_no_container_can_have_is_refused() -> None:
    device = pb.Device(container_path=f"/{path_of(5000)}", host_path="/dev/null")
    with pytest.raises(Invalid, match="the path of a device in the container has 10000 bytes"):
        prepare.find_devices(pb.ContainerConfig(devices=[device]))

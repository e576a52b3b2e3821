"""The whole spec: mounts, namespaces, limits, seccomp."""

from collections.abc import Mapping
from typing import cast

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Invalid
from pykubelet.criserver.spec import (
    HostDevice,
    InfraProgram,
    build_container,
    build_infra,
    build_resources,
    covered_paths,
    node_program,
)
from pykubelet.criserver.spec.mounts import build_mounts
from pykubelet.criserver.spec.spec_types import Json
from pykubelet.pb import runtime_v1_pb2 as pb
from tests.unit.criserver.spec.given import HOST, NAMESPACES, given, in_node_network


def _linux(spec: Mapping[str, object]) -> Json:
    return cast(Json, spec["linux"])


def _by_target(mounts: list[Json]) -> dict[object, Json]:
    return {mount["destination"]: mount for mount in mounts}


def test_namespaces_are_joined_and_made() -> None:
    found = cast(list[dict[str, str]], _linux(build_container(given()))["namespaces"])
    assert {"type": "mount"} in found
    assert {"type": "pid"} in found
    assert [{"type": kind, "path": path} for kind, path in NAMESPACES.items()] == found[1:4]


@pytest.mark.parametrize(
    ("pid", "expected"), [("/proc/7/ns/pid", [{"type": "pid", "path": "/proc/7/ns/pid"}]), (None, [])]
)
def test_pid_namespace_is_joined_by_path_or_omitted_for_the_node(
    pid: str | None, expected: list[dict[str, str]]
) -> None:
    found = cast(list[dict[str, str]], _linux(build_container(replace(given(), pid_namespace=pid)))["namespaces"])
    assert [each for each in found if each["type"] == "pid"] == expected


def test_the_mounts_of_a_request_replace_defaults_and_parents_come_first() -> None:
    config = pb.ContainerConfig(
        mounts=[
            pb.Mount(container_path="/etc/hosts", host_path="/pods/hosts"),
            pb.Mount(
                container_path="/data/deep/", host_path="/d", readonly=True, propagation=pb.PROPAGATION_BIDIRECTIONAL
            ),
            pb.Mount(container_path="/data", host_path="/c"),
        ]
    )
    mounts = build_mounts(given(config))
    targets = [mount["destination"] for mount in mounts]
    assert len(targets) == len(set(targets))
    assert targets.index("/data") < targets.index("/data/deep")
    found = _by_target(mounts)
    assert found["/etc/hosts"]["source"] == "/pods/hosts"
    assert found["/data/deep"]["options"] == ["rbind", "rshared", "ro"]
    assert found["/dev/shm"]["source"] == "/s/shm"
    assert _linux(build_container(given(config)))["rootfsPropagation"] == "rshared"


def test_volumes_of_the_image_are_mounted_before_all_others_and_parents_first() -> None:
    """A link of the image may lead the mount of /etc/hostname into a volume, which must not hide it."""
    config = pb.ContainerConfig(mounts=[pb.Mount(container_path="/a", host_path="/c")])
    of = replace(given(config), volumes={"/z/y/x": "/v/1", "/z/y": "/v/0"})
    mounts = build_mounts(of)
    options = ["rbind", "rprivate", "rw"]
    assert mounts[:2] == [
        {"destination": "/z/y", "type": "bind", "source": "/v/0", "options": options},
        {"destination": "/z/y/x", "type": "bind", "source": "/v/1", "options": options},
    ]
    assert covered_paths(config) >= {"/a", "/proc", "/sys", "/dev", "/etc/hosts"}
    with pytest.raises(Invalid, match="absolute"):
        covered_paths(pb.ContainerConfig(mounts=[pb.Mount(container_path="a")]))


@pytest.mark.parametrize(
    ("path", "hidden"),
    [
        ("/dev", {"/dev/pts", "/dev/mqueue"}),
        ("/dev/pts", set()),
        ("/sys", {"/sys/fs/cgroup"}),
        ("/sys/fs", {"/sys/fs/cgroup"}),
        ("/sy", set()),
        ("/etc", set()),
    ],
)
def test_directory_of_the_node_is_mounted_with_what_is_below_it(path: str, hidden: set[str]) -> None:
    """A mount of the kernel's file systems there would hide it, on the node itself if the directory is shared."""
    config = pb.ContainerConfig(mounts=[pb.Mount(container_path=path, host_path=path)])
    without, found = (_by_target(build_mounts(given(each))) for each in (None, config))
    assert {*without, path} - found.keys() == hidden
    assert (found[path]["type"], found[path]["source"]) == ("bind", path)
    assert found["/dev/shm"]["source"] == "/s/shm" and found["/etc/hosts"]["source"] == "/s/hosts"


@pytest.mark.parametrize(("version", "privileged", "bound"), [(1, True, False), (2, False, False), (2, True, True)])
def test_cgroups_of_the_node_are_bound_and_not_mounted_again(version: int, privileged: bool, bound: bool) -> None:
    """Without a cgroup namespace, a mount of cgroup2 replaces the options of the node's (nsdelegate, …) by its own."""
    config = pb.ContainerConfig()
    config.linux.security_context.privileged = privileged
    of = given(config, host=replace(HOST, cgroup_version=version))
    found = _by_target(build_mounts(of))["/sys/fs/cgroup"]
    own = {"type": "cgroup"} in cast(list[Json], _linux(build_container(of))["namespaces"])
    assert (found["type"] == "bind", own) == (bound, version == 2 and not privileged)
    assert found["source"] == ("/sys/fs/cgroup" if bound else "cgroup")
    assert {"nosuid", "noexec", "nodev", "relatime", "rw" if privileged else "ro"} <= set(
        cast(list[str], found["options"])
    )


def test_shared_memory_of_the_node() -> None:
    of = given()
    of = replace(of, sandbox=replace(of.sandbox, namespaces={}))
    assert _by_target(build_mounts(of))["/dev/shm"]["source"] == "/dev/shm"


@pytest.mark.parametrize(
    "mount",
    [
        pb.Mount(container_path="data", host_path="/c"),
        pb.Mount(container_path="/a/../b", host_path="/c"),
        pb.Mount(container_path="/a", host_path="c"),
        pb.Mount(container_path="/a", host_path="/c", recursive_read_only=True),
    ],
)
def test_impossible_mounts_are_invalid(mount: pb.Mount) -> None:
    with pytest.raises(Invalid):
        build_mounts(given(pb.ContainerConfig(mounts=[mount])))


def test_recursive_read_only() -> None:
    mount = pb.Mount(container_path="/a", host_path="/c", readonly=True, recursive_read_only=True)
    assert _by_target(build_mounts(given(pb.ContainerConfig(mounts=[mount]))))["/a"]["options"] == [
        "rbind",
        "rprivate",
        "rro",
        "ro",
    ]


def test_paths_are_masked_as_requested_except_for_privileged_containers() -> None:
    config = pb.ContainerConfig()
    config.linux.security_context.masked_paths.append("/proc/kcore")
    assert _linux(build_container(given(config)))["maskedPaths"] == ["/proc/kcore"]
    config.linux.security_context.privileged = True
    linux = _linux(build_container(given(config)))
    assert "maskedPaths" not in linux
    assert cast(Json, linux["resources"])["devices"] == [{"allow": True, "access": "rwm"}]


def test_requested_devices_are_allowed() -> None:
    device = HostDevice("/dev/fuse", "c", 10, 229, 0o20666, 0, 0, "rw")
    linux = _linux(build_container(replace(given(), devices=(device,))))
    assert cast(list[Json], linux["devices"])[0]["path"] == "/dev/fuse"
    rules = cast(list[Json], cast(Json, linux["resources"])["devices"])
    assert rules[0] == {"allow": False, "access": "rwm"}
    assert rules[1] == {"allow": True, "type": "c", "major": 10, "minor": 229, "access": "rw"}


def test_annotations_of_the_pod_do_not_reach_the_runtime() -> None:
    of = in_node_network(given())
    of.sandbox.config.annotations["run.oci.hooks"] = "x"
    assert "run.oci.hooks" not in cast(dict[str, str], build_container(of)["annotations"])


@pytest.mark.parametrize(("cgroup", "reported"), [("pod.slice:cri-pykubelet:c", True), ("/pods/c", False)])
def test_systemd_scope_has_unlimited_tasks(cgroup: str, reported: bool) -> None:
    annotations = cast(dict[str, str], build_container(replace(given(), cgroup=cgroup))["annotations"])
    assert ("org.systemd.property.TasksMax" in annotations) is reported


def test_resource_limits_have_the_form_of_the_cgroup_version() -> None:
    asked = pb.LinuxContainerResources(
        cpu_shares=100,
        cpu_quota=50000,
        cpu_period=100000,
        memory_limit_in_bytes=1 << 20,
        hugepage_limits=[pb.HugepageLimit(page_size="2MB", limit=4), pb.HugepageLimit(page_size="1GB", limit=4)],
        unified={"memory.high": "1"},
    )
    found = build_resources(asked, HOST)
    assert found == {
        "cpu": {"shares": 100, "quota": 50000, "period": 100000},
        "memory": {"limit": 1 << 20},
        "hugepageLimits": [{"pageSize": "2MB", "limit": 4}],
    }
    v2 = build_resources(asked, replace(HOST, cgroup_version=2, swap=True))
    assert v2["unified"] == {"memory.high": "1"}
    assert v2["memory"] == {"limit": 1 << 20, "swap": 1 << 20}
    asked.unified["memory.swap.max"] = "4096"
    both = build_resources(asked, replace(HOST, cgroup_version=2, swap=True))
    # Two values for one file: what the client wrote itself holds.
    assert (both["memory"], both["unified"]) == ({"limit": 1 << 20}, dict(asked.unified))
    assert build_resources(pb.LinuxContainerResources(), HOST) == {}
    # Not what systemd gives to those that do not say.
    assert build_resources(pb.LinuxContainerResources(), replace(HOST, cgroup_version=2)) == {"pids": {"limit": -1}}


def test_infra_process_has_no_capabilities() -> None:
    spec = build_infra(
        program=node_program("/usr/bin/catatonit"),
        rootfs="/r",
        cgroup="/p/i",
        namespaces={"ipc": "/ns/ipc"},
        oom_score=0,
    )
    process = cast(Json, spec["process"])
    assert process["capabilities"] == {}
    assert process["args"] == ["/init", "-P"]
    assert {"type": "ipc", "path": "/ns/ipc"} in cast(list[Json], _linux(spec)["namespaces"])
    assert _by_target(cast(list[Json], spec["mounts"]))["/init"]["source"] == "/usr/bin/catatonit"


def test_the_infra_process_of_an_image() -> None:
    program = InfraProgram(("/pause", "-v"), ("A=b",), "/somewhere")
    spec = build_infra(program=program, rootfs="/r", cgroup="/p/i", namespaces={}, oom_score=0)
    process = cast(Json, spec["process"])
    assert (process["args"], process["env"], process["cwd"]) == (["/pause", "-v"], ["A=b"], "/somewhere")
    assert (process["capabilities"], process["user"]) == ({}, {"uid": 65535, "gid": 65535})
    assert [mount["destination"] for mount in cast(list[Json], spec["mounts"])] == ["/proc", "/dev"]
    assert spec["root"] == {"path": "/r", "readonly": True}


def test_an_image_is_mounted_read_only_or_not_at_all() -> None:
    image = pb.ImageSpec(image="app:1")
    config = pb.ContainerConfig(mounts=[pb.Mount(container_path="/data", image=image, readonly=True)])
    mounts = build_mounts(replace(given(config), mount_sources={"/data": "/images/1"}))
    assert _by_target(mounts)["/data"]["options"] == ["rbind", "rprivate", "ro"]
    config.mounts[0].readonly = False
    with pytest.raises(Invalid, match="read-only"):
        build_mounts(replace(given(config), mount_sources={"/data": "/images/1"}))

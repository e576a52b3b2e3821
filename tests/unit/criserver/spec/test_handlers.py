"""The OCI configuration that a runtime handler's settings lead to, with containerd's names."""

from collections.abc import Mapping
from typing import Any, cast

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Invalid
from pykubelet.criserver.spec import ContainerInput, HandlerOptions, HostDevice, build_container, infra_annotations
from pykubelet.criserver.spec.base_spec import check_base
from pykubelet.pb import runtime_v1_pb2 as pb
from tests.unit.criserver.spec.given import given

_NULL = HostDevice("/dev/n", "c", 1, 3, 0o666, 0, 0)


def handled(
    options: HandlerOptions, config: pb.ContainerConfig | None = None, pod: Mapping[str, str] | None = None
) -> ContainerInput:
    of = given(config)
    of.sandbox.config.annotations.update(pod or {})
    return replace(of, sandbox=replace(of.sandbox, id="s1", handler=options))


def spec(
    options: HandlerOptions, config: pb.ContainerConfig | None = None, pod: Mapping[str, str] | None = None
) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], build_container(handled(options, config, pod)))


def privileged() -> pb.ContainerConfig:
    config = pb.ContainerConfig(metadata=pb.ContainerMetadata(name="app"))
    config.linux.security_context.privileged = True
    return config


def test_annotations_of_containerd_are_in_every_spec() -> None:
    config = pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name="app"),
        image=pb.ImageSpec(image="sha256:1", user_specified_image="app:1"),
    )
    assert spec(HandlerOptions(), config)["annotations"] == {
        "io.kubernetes.cri.container-type": "container",
        "io.kubernetes.cri.sandbox-id": "s1",
        "io.kubernetes.cri.sandbox-name": "web",
        "io.kubernetes.cri.sandbox-namespace": "default",
        "io.kubernetes.cri.sandbox-uid": "u1",
        "io.kubernetes.cri.container-name": "app",
        "io.kubernetes.cri.image-name": "app:1",
    }
    without = spec(HandlerOptions(sandbox_annotations=False), config)["annotations"]
    assert not {"io.kubernetes.cri.container-type", "io.kubernetes.cri.sandbox-id"} & without.keys()


def test_annotations_of_the_infra_process_describe_the_sandbox() -> None:
    config = pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(name="web", namespace="default", uid="u1"),
        log_directory="/logs",
        annotations={"run.x/a": "1", "other": "2"},
    )
    options = HandlerOptions(pod_annotations=("run.x/*",))
    assert infra_annotations("s1", config, options, "pause:1") == {
        "run.x/a": "1",
        "io.kubernetes.cri.container-type": "sandbox",
        "io.kubernetes.cri.sandbox-id": "s1",
        "io.kubernetes.cri.sandbox-name": "web",
        "io.kubernetes.cri.sandbox-namespace": "default",
        "io.kubernetes.cri.sandbox-uid": "u1",
        "io.kubernetes.cri.sandbox-log-directory": "/logs",
        "io.kubernetes.cri.podsandbox.image-name": "pause:1",
    }
    config.linux.resources.cpu_period, config.linux.resources.cpu_quota = 100_000, 50_000
    config.linux.resources.cpu_shares, config.linux.resources.memory_limit_in_bytes = 512, 1 << 30
    found = infra_annotations("s1", config, options, "")
    assert [found[f"io.kubernetes.cri.sandbox-{name}"] for name in ("cpu-period", "cpu-quota", "cpu-shares")] == [
        "100000",
        "50000",
        "512",
    ]
    assert found["io.kubernetes.cri.sandbox-memory"] == "1073741824"


@pytest.mark.parametrize(
    ("pattern", "key", "passes"),
    [
        ("module.wasm.image/*", "module.wasm.image/variant", True),
        ("*.wasm.*", "module.wasm.image/variant", False),
        ("*", "run.oci.handler", True),
        ("*", "a/b", False),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("run.oci.handler", "run-oci-handler", False),
        ("[a-c]x", "bx", True),
        ("[^a-c]x", "bx", False),
        (r"\*x", "*x", True),
        (r"\*x", "yx", False),
    ],
)
def test_only_matching_annotations_pass_as_in_gos_path_match(pattern: str, key: str, passes: bool) -> None:
    config = pb.ContainerConfig(metadata=pb.ContainerMetadata(name="app"), annotations={key: "container"})
    assert key not in spec(HandlerOptions(), config, {key: "pod"})["annotations"]
    of_pod = spec(HandlerOptions(pod_annotations=(pattern,)), config, {key: "pod"})["annotations"]
    assert of_pod.get(key) == ("pod" if passes else None)
    both = HandlerOptions(pod_annotations=(pattern,), container_annotations=(pattern,))
    assert spec(both, config, {key: "pod"})["annotations"].get(key) == ("container" if passes else None)


def test_passing_annotations_replace_none_of_the_servers() -> None:
    options = HandlerOptions(pod_annotations=("io.kubernetes.cri.*",))
    key = "io.kubernetes.cri.sandbox-uid"
    assert spec(options, pod={key: "another"})["annotations"][key] == "u1"


def test_privileged_containers_without_devices_of_the_host_use_only_the_requested_ones() -> None:
    def rules(options: HandlerOptions) -> list[Any]:
        of = replace(handled(options, privileged()), devices=(_NULL,))
        return cast(list[Any], cast(Any, build_container(of)["linux"])["resources"]["devices"])

    everything = [{"allow": True, "access": "rwm"}]
    requested = {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rwm"}
    assert rules(HandlerOptions()) == everything
    limited = HandlerOptions(privileged_without_host_devices=True)
    assert rules(limited) == [{"allow": False, "access": "rwm"}, requested]
    assert rules(replace(limited, privileged_without_host_devices_all_devices_allowed=True)) == everything


def test_cgroups_are_writable_if_the_handler_says_so() -> None:
    def modes(options: HandlerOptions) -> dict[str, str]:
        return {each["destination"]: each["options"][-1] for each in spec(options)["mounts"]}

    assert modes(HandlerOptions())["/sys/fs/cgroup"] == "ro"
    writable = modes(HandlerOptions(cgroup_writable=True))
    assert (writable["/sys/fs/cgroup"], writable["/sys"]) == ("rw", "ro")


def test_base_spec_adds_what_the_request_does_not_describe() -> None:
    base = check_base(
        {
            "ociVersion": "1.2.0",
            "hostname": "base",
            "process": {
                "user": {"uid": 0},
                "args": ["base"],
                "env": ["A=base", "BASE=1"],
                "capabilities": {"bounding": ["CAP_SYS_ADMIN"]},
                "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 10, "soft": 5}],
            },
            "root": {"path": "/base"},
            "mounts": [
                {"destination": "/run", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid"]},
                {"destination": "/proc", "type": "proc", "source": "base"},
            ],
            "hooks": {"poststop": [{"path": "/bin/true"}]},
            "annotations": {"base": "1", "io.kubernetes.cri.sandbox-uid": "base"},
            "linux": {
                "seccomp": {"defaultAction": "SCMP_ACT_KILL"},
                "namespaces": [{"type": "time"}],
                "uidMappings": [{"containerID": 0, "hostID": 5, "size": 1}],
                "maskedPaths": ["/base"],
                "sysctl": {"net.core.somaxconn": "256"},
                "devices": [{"path": "/dev/base", "type": "c", "major": 1, "minor": 5}],
                "resources": {
                    "pids": {"limit": 7},
                    "cpu": {"shares": 3, "burst": 9},
                    "devices": [
                        {"allow": False, "access": "rwm"},
                        {"allow": True, "type": "c", "major": 1, "minor": 5, "access": "r"},
                    ],
                },
            },
        },
        "base.json",
    )
    config = pb.ContainerConfig(metadata=pb.ContainerMetadata(name="app"))
    config.linux.resources.cpu_shares = 100
    plain = spec(HandlerOptions(), config)
    found = spec(HandlerOptions(base=base), config)
    process, linux = found["process"], found["linux"]
    assert process["rlimits"] == base["process"]["rlimits"]  # type: ignore[index]
    assert [process[key] for key in ("user", "args", "capabilities")] == [
        plain["process"][key] for key in ("user", "args", "capabilities")
    ]
    assert "BASE=1" in process["env"] and "A=image" in process["env"] and "A=base" not in process["env"]
    assert found["root"] == plain["root"] and found["ociVersion"] == plain["ociVersion"] and "hostname" not in found
    mounts = {each["destination"]: each["source"] for each in found["mounts"]}
    assert (mounts["/run"], mounts["/proc"], len(mounts)) == ("tmpfs", "proc", len(plain["mounts"]) + 1)
    assert found["hooks"] == {"poststop": [{"path": "/bin/true"}]}
    assert found["annotations"]["base"] == "1"
    assert found["annotations"]["io.kubernetes.cri.sandbox-uid"] == "u1"
    assert "seccomp" not in linux and "uidMappings" not in linux
    assert linux["namespaces"] == plain["linux"]["namespaces"] and linux["maskedPaths"] == []
    assert linux["sysctl"] == {"net.core.somaxconn": "256"}
    assert [each["path"] for each in linux["devices"]] == ["/dev/base"]
    assert linux["resources"]["pids"] == {"limit": 7} and linux["resources"]["cpu"] == {"shares": 100, "burst": 9}
    assert linux["resources"]["devices"] == base["linux"]["resources"]["devices"]  # type: ignore[index]


def test_base_spec_mounts_nothing_above_a_directory_of_the_node() -> None:
    """One that was printed by ``runc spec`` has the usual mounts, which a request for the node's /sys leaves out."""
    base: dict[str, object] = {"mounts": [{"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup"}]}
    config = pb.ContainerConfig(mounts=[pb.Mount(container_path="/sys", host_path="/sys")])
    for each, expected in ((config, False), (None, True)):
        found = spec(HandlerOptions(base=base), each)["mounts"]
        assert ("/sys/fs/cgroup" in [mount["destination"] for mount in found]) is expected


@pytest.mark.parametrize(
    ("document", "word"),
    [
        ([], "one JSON object"),
        ({"process": []}, "process"),
        ({"hooks": 1}, "hooks"),
        ({"linux": {"resources": []}}, "linux.resources"),
        ({"mounts": [{}]}, "mounts"),
        ({"linux": {"devices": {}}}, "linux.devices"),
        ({"process": {"env": [1]}}, "process.env"),
    ],
)
def test_invalid_base_specs_are_rejected_with_the_field(document: object, word: str) -> None:
    with pytest.raises(Invalid, match=rf"base\.json: .*{word}"):
        check_base(document, "base.json")

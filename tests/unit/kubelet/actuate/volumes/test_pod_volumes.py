"""Decisions about volumes."""

import pytest

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.base.units import GIB, MIB
from pykubelet.kubelet.actuate.actuate_types import Propagation
from pykubelet.kubelet.actuate.volumes.plan import pod_volumes
from pykubelet.models import codec
from pykubelet.models.core_v1 import Volume, VolumeMount
from tests.unit.kubelet.actuate.volumes.build import Fields, make_pod, mounting


def volume(**fields: object) -> Volume:
    return codec.from_builtins({"name": "v", **fields}, Volume)


def mount(**fields: object) -> VolumeMount:
    return codec.from_builtins({"name": "v", "mountPath": "/m", **fields}, VolumeMount)


@pytest.mark.parametrize(
    ("fields", "source"),
    [
        ({}, "empty_dir"),
        ({"emptyDir": {}}, "empty_dir"),
        ({"hostPath": {"path": "/x"}}, "host_path"),
        ({"downwardAPI": {}}, "downward_api"),
        ({"persistentVolumeClaim": {"claimName": "c"}}, "persistent_volume_claim"),
    ],
)
def test_source_of_a_volume_is_its_set_field(fields: Fields, source: str) -> None:
    assert pod_volumes.source_of(volume(**fields)) == source


def test_unsupported_kinds_are_named_as_in_manifests() -> None:
    assert pod_volumes.unsupported("persistent_volume_claim").startswith(
        "volumes of kind persistentVolumeClaim are not"
    )
    assert "init container" in pod_volumes.unsupported("git_repo")


LIMITED = {"containers": [{"name": "a", "image": "i", "resources": {"limits": {"memory": "64Mi"}}}]}
HALF_LIMITED = {"containers": [*LIMITED["containers"], {"name": "b", "image": "i"}]}


@pytest.mark.parametrize(
    ("spec", "allocatable", "limit", "size"),
    [
        ({}, None, None, None),
        ({}, "1Gi", None, GIB),
        (LIMITED, "1Gi", None, 64 * MIB),
        (LIMITED, "32Mi", None, 32 * MIB),
        (LIMITED, "1Gi", "1Mi", MIB),
        (LIMITED, "1Gi", "1Gi", 64 * MIB),
        (HALF_LIMITED, "1Gi", None, GIB),
        ({}, None, "8Mi", 8 * MIB),
        ({}, "1Gi", "0", GIB),
    ],
)
def test_tmpfs_size_is_the_smallest_of_the_limits(
    spec: Fields, allocatable: str | None, limit: str | None, size: int | None
) -> None:
    assert pod_volumes.tmpfs_size(make_pod(spec), allocatable, limit) == size


def requesting(*sizes: str) -> Fields:
    return {
        "containers": [
            {"name": f"c{i}", "image": "i", "resources": {"requests": {f"hugepages-{size}": "4Mi"}}}
            for i, size in enumerate(sizes)
        ]
    }


def test_huge_page_size_is_found_by_medium_or_refused() -> None:
    assert pod_volumes.huge_page_size(make_pod(requesting("2Mi")), "HugePages") == 2 * MIB
    assert pod_volumes.huge_page_size(make_pod(requesting("2Mi", "1Gi")), "HugePages-1Gi") == GIB
    with pytest.raises(Invalid, match="can't be used if container requests multiple huge page sizes"):
        pod_volumes.huge_page_size(make_pod(requesting("2Mi", "1Gi")), "HugePages")
    for medium in ("HugePages", "HugePages-1Gi"):
        with pytest.raises(Invalid, match=f"^medium {medium}: hugePages storage requested, but there is no"):
            pod_volumes.huge_page_size(make_pod(requesting("2Mi") if "1Gi" in medium else {}), medium)


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        (["/dir", "/dir/nested", "/dir/nested/deeper", "/other"], ["nested"]),
        (
            ["/dir", "/dir/nested", "/dir/nested-vol", "/dir/nested/x", "/dir/nested2"],
            ["nested", "nested-vol", "nested2"],
        ),
        (["/dir/", "/dir/a/b/"], ["a/b"]),
        (["/dir", "/directory/x"], []),
        (["/dir", "/dir/../x"], []),
    ],
)
def test_nested_mount_points(paths: list[str], found: list[str]) -> None:
    names = ["v", *(f"w{i}" for i in range(len(paths) - 1))]
    mounts = [{"name": name, "mountPath": path} for name, path in zip(names, paths, strict=True)]
    pod = make_pod({"containers": [{"name": "c", "image": "i", "volumeMounts": mounts}]})
    assert list(pod_volumes.nested_mount_points(pod, "v")) == found


def test_nested_mount_points_of_all_containers_once() -> None:
    mounts = [{"name": "v", "mountPath": "/d"}, {"name": "w", "mountPath": "/d/x"}]
    container = {"name": "c", "image": "i", "volumeMounts": mounts}
    pod = make_pod({"initContainers": [container], "containers": [container]})
    assert pod_volumes.nested_mount_points(pod, "v") == ("x",)


def test_sub_path_expression_is_expanded_with_the_environment() -> None:
    assert pod_volumes.sub_path(mount(), {}) == ""
    assert pod_volumes.sub_path(mount(subPath="a/b"), {}) == "a/b"
    assert pod_volumes.sub_path(mount(subPathExpr="logs/$(POD)-$$(X)"), {"POD": "web"}) == "logs/web-$(X)"


@pytest.mark.parametrize(
    ("fields", "env", "error", "text"),
    [
        ({"subPath": "/a"}, {}, Invalid, "error SubPath `/a` must not be an absolute path"),
        ({"subPath": "a/../b"}, {}, Invalid, "unable to provision SubPath `a/../b`: must not contain '..'"),
        ({"subPathExpr": "$(B)/$(A)/$(A)"}, {}, NotFound, "missing value for A, B"),
        ({"subPathExpr": "$(A)"}, {"A": ""}, NotFound, "missing value for A"),
        ({"subPathExpr": "$(A)"}, {"A": "/etc"}, Invalid, "error SubPath `/etc` must not be an absolute path"),
        ({"subPathExpr": "$(A)"}, {"A": "/\udcff"}, Invalid, "error SubPath `/\\xff` must not be an absolute path"),
        (
            {"subPathExpr": "$(A)"},
            {"A": "../\udcff"},
            Invalid,
            "unable to provision SubPath `../\\xff`: must not contain '..'",
        ),
        ({"subPathExpr": "x/$(A)"}, {"A": ".."}, Invalid, "unable to provision SubPath `x/..`: must not contain '..'"),
        (
            {"subPathExpr": "$(A)$(A)"},
            {"A": "x" * 3000},
            Invalid,
            "the variables in '$(A)$(A)' make it longer than 4095 characters",
        ),
    ],
)
def test_invalid_sub_path_raises(fields: Fields, env: dict[str, str], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        pod_volumes.sub_path(mount(**fields), env)
    assert str(caught.value) == text


def test_propagation_of_an_unknown_mode_is_refused() -> None:
    assert pod_volumes.propagation(mount()) is Propagation.PRIVATE
    assert pod_volumes.propagation(mount(mountPropagation="None")) is Propagation.PRIVATE
    assert pod_volumes.propagation(mount(mountPropagation="HostToContainer")) is Propagation.HOST_TO_CONTAINER
    assert pod_volumes.propagation(mount(mountPropagation="Bidirectional")) is Propagation.BIDIRECTIONAL
    with pytest.raises(Invalid, match='invalid MountPropagation mode: "Both"'):
        pod_volumes.propagation(mount(mountPropagation="Both"))


@pytest.mark.parametrize(
    ("mode", "supported", "result"),
    [
        ("", True, False),
        ("Disabled", True, False),
        ("IfPossible", False, False),
        ("IfPossible", True, True),
        ("Enabled", True, True),
    ],
)
def test_recursive_read_only(mode: str, supported: bool, result: bool) -> None:
    assert pod_volumes.recursive_read_only(mount(readOnly=True, recursiveReadOnly=mode), supported) is result


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"recursiveReadOnly": "Enabled"}, "but it is not read-only"),
        (
            {"recursiveReadOnly": "IfPossible", "readOnly": True, "mountPropagation": "Bidirectional"},
            'but it is not compatible with propagation "Bidirectional"',
        ),
        ({"recursiveReadOnly": "Enabled", "readOnly": True}, "but it is not supported by the runtime"),
        ({"recursiveReadOnly": "Maybe", "readOnly": True}, 'unknown recursive read-only mode "Maybe"'),
    ],
)
def test_unavailable_recursive_read_only_raises(fields: Fields, text: str) -> None:
    with pytest.raises(Invalid, match=text):
        pod_volumes.recursive_read_only(mount(**fields), False)


def test_relative_container_path_starts_at_the_root() -> None:
    assert pod_volumes.container_path("data") == "/data"
    assert pod_volumes.container_path("/data") == "/data"


def test_referenced_objects_are_config_maps_and_secrets_of_volumes() -> None:
    pod = make_pod(
        {
            "volumes": [
                {"name": "a", "configMap": {"name": "cm"}},
                {"name": "b", "secret": {"secretName": "s"}},
                {"name": "c", "projected": {"sources": [{"configMap": {"name": "cm2"}}, {"secret": {"name": "s"}}]}},
                {"name": "d", "emptyDir": {}},
            ]
        }
    )
    assert pod_volumes.referenced_objects(pod) == {("ConfigMap", "cm"), ("Secret", "s"), ("ConfigMap", "cm2")}
    assert mounting().volume_mounts == ()

"""Edits of the Container Device Interface."""

from collections.abc import Mapping
from typing import cast

import pytest

from pykubelet.base.errors import Invalid, NotFound, Unsupported
from pykubelet.criserver.spec import HostDevice, build_container
from pykubelet.criserver.spec.cdi import RankedCdiFile, apply_edits, edits_of, parse_file
from pykubelet.criserver.spec.cdi_request import asks_for_devices, devices_of
from pykubelet.criserver.spec.spec_types import Json
from pykubelet.pb import runtime_v1_pb2 as pb
from tests.unit.criserver.spec.given import given

DOCUMENT: Json = {
    "cdiVersion": "0.6.0",
    "kind": "vendor.com/gpu",
    "annotations": {"unknown": "fields pass"},
    "containerEdits": {
        "env": ["VENDOR=yes"],
        "hooks": [{"hookName": "createContainer", "path": "/bin/hook", "args": ["h"]}],
    },
    "devices": [
        {
            "name": "0",
            "containerEdits": {
                "env": ["A=cdi"],
                "deviceNodes": [{"path": "/dev/gpu0", "hostPath": "/dev/null", "permissions": "rw"}],
                "mounts": [{"hostPath": "/lib/v.so", "containerPath": "/lib/v.so", "options": ["ro", "bind"]}],
                "additionalGids": [44],
            },
        },
        {"name": "1", "containerEdits": {"env": ["SECOND=1"]}},
    ],
}
GPU0 = HostDevice("/dev/gpu0", "c", 1, 3, 0o666, 0, 0, "rw")


def _found(document: Json = DOCUMENT, rank: int = 0, origin: str = "/etc/cdi/v.json") -> RankedCdiFile:
    return RankedCdiFile(origin, rank, parse_file(document, origin))


def _other(env: str) -> Json:
    return {
        "cdiVersion": "0.6.0",
        "kind": "vendor.com/gpu",
        "devices": [{"name": "0", "containerEdits": {"env": [env]}}],
    }


def test_edits_of_a_file_come_once_and_first() -> None:
    edits = edits_of(["vendor.com/gpu=1", "vendor.com/gpu=0"], [_found()])
    assert [edit.env for edit in edits] == [("VENDOR=yes",), ("SECOND=1",), ("A=cdi",)]


@pytest.mark.parametrize("edits", [{"netDevices": [{"hostInterfaceName": "ib0"}]}, {"intelRdt": {"closID": "c"}}])
@pytest.mark.parametrize("of_file", [True, False])
def test_devices_with_edits_that_no_container_would_get_are_refused(edits: Json, of_file: bool) -> None:
    device: Json = {"name": "0"} if of_file else {"name": "0", "containerEdits": edits}
    document: Json = {"cdiVersion": "1.1.0", "kind": "vendor.com/gpu", "devices": [device]}
    with pytest.raises(Unsupported, match=r"vendor\.com/gpu=0 has netDevices or intelRdt"):
        edits_of(["vendor.com/gpu=0"], [_found(document | ({"containerEdits": edits} if of_file else {}))])


def test_later_directory_takes_precedence() -> None:
    edits = edits_of(["vendor.com/gpu=0"], [_found(), _found(_other("B=run"), 1, "/var/run/cdi/v.json")])
    assert [edit.env for edit in edits] == [(), ("B=run",)]


def test_device_in_two_files_of_one_directory_is_invalid() -> None:
    with pytest.raises(Invalid, match=r"is defined twice: in /etc/cdi/.* and in /etc/cdi/"):
        edits_of(["vendor.com/gpu=0"], [_found(), _found(_other("B=2"), 0, "/etc/cdi/w.json")])


@pytest.mark.parametrize("name", ["vendor.com/gpu=9", "other.com/gpu=0"])
def test_unknown_devices_are_not_found(name: str) -> None:
    with pytest.raises(NotFound, match=name):
        edits_of([name], [_found()])


@pytest.mark.parametrize("name", ["gpu0", "vendor.com/gpu", "vendor=0", "vendor.com/gpu=", ""])
def test_malformed_device_names_are_invalid(name: str) -> None:
    with pytest.raises(Invalid, match="vendor/class=name"):
        edits_of([name], [_found()])


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "Expected"),
        ({"cdiVersion": "1", "kind": 5}, "kind"),
        (
            {
                "cdiVersion": "1",
                "kind": "a/b",
                "containerEdits": {"mounts": [{"hostPath": "/a", "containerPath": "b"}]},
            },
            "absolute",
        ),
        (
            {"cdiVersion": "1", "kind": "a/b", "containerEdits": {"hooks": [{"hookName": "never", "path": "/a"}]}},
            "never",
        ),
    ],
)
def test_invalid_files_are_rejected(document: object, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        parse_file(document, "/etc/cdi/x.json")


def test_edits_return_a_new_spec() -> None:
    config = pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name="app"), mounts=[pb.Mount(container_path="/lib/v.so", host_path="/old")]
    )
    before = build_container(given(config))
    after = apply_edits(before, edits_of(["vendor.com/gpu=0"], [_found()]), {"/dev/gpu0": GPU0})
    process, linux = cast(Mapping[str, object], after["process"]), cast(Mapping[str, object], after["linux"])
    env = cast(list[str], process["env"])
    assert "A=cdi" in env and "A=image" not in env and "VENDOR=yes" in env
    assert [device["path"] for device in cast(list[Json], linux["devices"])] == ["/dev/gpu0"]
    rules = cast(list[Json], cast(Json, linux["resources"])["devices"])
    assert rules[-1] == {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rw"}
    (mount,) = [each for each in cast(list[Json], after["mounts"]) if each["destination"] == "/lib/v.so"]
    assert (mount["source"], mount["options"]) == ("/lib/v.so", ["ro", "bind"])
    assert after["hooks"] == {"createContainer": [{"path": "/bin/hook", "args": ["h"]}]}
    assert cast(Json, process["user"])["additionalGids"] == [1000, 44]
    assert before == build_container(given(config))


@pytest.mark.parametrize(
    ("field", "annotations", "expected"),
    [
        ([], {}, []),
        (["a.b/c=0"], {}, ["a.b/c=0"]),
        ([], {"cdi.k8s.io/nvidia_0": "nvidia.com/gpu=0, nvidia.com/gpu=1"}, ["nvidia.com/gpu=0", "nvidia.com/gpu=1"]),
        (
            ["a.b/c=0"],
            {"cdi.k8s.io/z": "a.b/c=2", "cdi.k8s.io/y": "a.b/c=1,a.b/c=0"},
            ["a.b/c=0", "a.b/c=1", "a.b/c=2"],
        ),
        ([], {"io.example/cdi": "a.b/c=2"}, []),
    ],
)
def test_devices_of_the_field_and_of_annotations(
    field: list[str], annotations: dict[str, str], expected: list[str]
) -> None:
    config = pb.ContainerConfig(annotations=annotations, CDI_devices=[pb.CDIDevice(name=name) for name in field])
    assert devices_of(config) == expected
    assert asks_for_devices(config) is bool(expected)


@pytest.mark.parametrize("value", ["", "gpu0", "nvidia.com/gpu", "nvidia.com/gpu=", "nvidia.com/gpu=0,,", "\u202egpu"])
def test_annotation_without_a_device_is_invalid(value: str) -> None:
    config = pb.ContainerConfig(annotations={"cdi.k8s.io/x": value})
    assert asks_for_devices(config)
    with pytest.raises(Invalid, match=r"annotation cdi.k8s.io/x: .* must be written as vendor.com/class=device"):
        devices_of(config)

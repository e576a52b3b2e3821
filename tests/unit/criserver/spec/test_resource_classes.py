"""Classes of block I/O and RDT: which one a container has, and what it means."""

import msgspec
import pytest

from pykubelet.base.errors import Invalid
from pykubelet.criserver.spec.resource_classes import (
    BLOCKIO,
    RDT,
    BlockioFile,
    Device,
    asks_for_classes,
    block_io,
    check_rdt_class,
    class_of,
    with_classes,
)
from pykubelet.pb import runtime_v1_pb2 as pb

DISKS = {"/dev/sd*": [Device(8, 0), Device(8, 16)], "/dev/ssd": [Device(8, 16)], "/dev/none": []}


@pytest.mark.parametrize("kind", [BLOCKIO, RDT])
def test_nearest_annotation_decides(kind: str) -> None:
    config = pb.ContainerConfig(metadata=pb.ContainerMetadata(name="app"))
    pod = pb.PodSandboxConfig()
    assert class_of(kind, config, pod) == "" and not asks_for_classes(config, pod)
    pod.annotations[f"{kind}.resources.beta.kubernetes.io/pod"] = "of-pod"
    pod.annotations[f"{kind}.resources.beta.kubernetes.io/container.other"] = "of-other"
    assert class_of(kind, config, pod) == "of-pod" and asks_for_classes(config, pod)
    pod.annotations[f"{kind}.resources.beta.kubernetes.io/container.app"] = "of-app"
    assert class_of(kind, config, pod) == "of-app"
    config.annotations[f"io.kubernetes.cri.{kind}-class"] = "own"
    assert class_of(kind, config, pod) == "own"


def parameters(*entries: dict[str, object]) -> dict[str, object]:
    (found,) = msgspec.convert({"Classes": {"c": entries}}, BlockioFile).classes.values()
    return block_io("c", found, DISKS.__getitem__, "/file")


def test_later_entries_replace_earlier_ones_for_their_devices() -> None:
    found = parameters(
        {"Weight": 80},
        {
            "Devices": ["/dev/sd*"],
            "ThrottleReadBps": "50M",
            "ThrottleWriteBps": "1Ki",
            "ThrottleReadIOPS": "10k",
            "ThrottleWriteIOPS": 5,
            "Weight": "50",
        },
        {"Devices": ["/dev/ssd"], "ThrottleReadBps": "100M"},
    )

    def both(first: int, second: int, name: str = "rate") -> list[dict[str, int]]:
        return [{"major": 8, "minor": 0, name: first}, {"major": 8, "minor": 16, name: second}]

    assert found == {
        "weight": 80,
        "weightDevice": both(50, 50, "weight"),
        "throttleReadBpsDevice": both(50_000_000, 100_000_000),
        "throttleWriteBpsDevice": both(1024, 1024),
        "throttleReadIOPSDevice": both(10_000, 10_000),
        "throttleWriteIOPSDevice": both(5, 5),
    }


def test_pattern_without_devices_has_no_effect() -> None:
    assert parameters({"Devices": ["/dev/none"], "ThrottleReadBps": 1}) == {}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"Weight": 9}, r"/file: Classes.c\[0\].Weight: must be from 10 to 1000, not 9"),
        ({"Devices": ["/dev/ssd"], "ThrottleReadBps": "much"}, "ThrottleReadBps: 'much' is not a quantity"),
        ({"Devices": ["/dev/ssd"], "ThrottleReadIOPS": -1}, "ThrottleReadIOPS: must be at least 0"),
        ({"ThrottleReadBps": "1M"}, "throttling needs Devices"),
    ],
)
def test_invalid_parameters_are_named(entry: dict[str, object], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        parameters(entry)


@pytest.mark.parametrize("name", ["", "..", "info", "a/b", "a\nb", "a" * 256])
def test_names_that_cannot_be_rdt_classes(name: str) -> None:
    with pytest.raises(Invalid, match="RDT class"):
        check_rdt_class(name)


def test_spec_with_classes_keeps_the_rest() -> None:
    spec: dict[str, object] = {"root": {}, "linux": {"resources": {"cpu": {}}, "devices": []}}
    assert with_classes(spec, {"weight": 20}, "gold") == {
        "root": {},
        "linux": {
            "resources": {"cpu": {}, "blockIO": {"weight": 20}},
            "devices": [],
            "intelRdt": {"closID": "gold"},
        },
    }
    assert with_classes(spec, None, "") == spec

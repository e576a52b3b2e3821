"""Feature gates as the agent handles them, and as its documentation lists them."""

import re
from pathlib import Path

import pytest

from pykubelet.kubelet.config.feature_gates import KNOWN, gate_is_on, unusable_gates, wrong_gates
from pykubelet.kubelet.config.gate_table import (
    ABSENT,
    ALPHA,
    ALWAYS_ON,
    BETA,
    ELSEWHERE,
    LOCKED_OFF,
    LOCKED_ON,
    NEEDS,
    NEEDS_ALPHA,
    NEEDS_OFF,
    SWITCHES,
)
from pykubelet.kubelet.report.node.node_types import DECLARED_FEATURES

_MANAGERS = "PodLevelResourceManagers: [PodLevelResources]"
PARITY = Path(__file__).resolve().parents[4] / "docs" / "parity.md"


@pytest.mark.parametrize(
    ("gates", "messages"),
    [
        ({}, []),
        ({"SidecarContainers": True, "QOSReserved": False, "CustomCPUCFSQuotaPeriod": False}, []),
        ({"EnvFiles": False}, ["EnvFiles=false: the feature cannot be switched off"]),
        (
            {"SELinuxMount": True, "QOSReserved": True},
            [
                "QOSReserved=true: the feature is not implemented",
                "SELinuxMount=true: the feature is not implemented",
            ],
        ),
        ({"AllAlpha": True}, ["AllAlpha=true: applies to MemoryQoS, ReduceDefaultCrashLoopBackOffDecay only"]),
        ({"AllBeta": False}, ["AllBeta=false: applies to KubeletCrashLoopBackOffMax only"]),
        ({"GangScheduling": True, "GenericWorkload": True, "WinDSR": True}, []),
    ],
)
def test_gates_that_the_agent_does_not_follow_are_named(gates: dict[str, bool], messages: list[str]) -> None:
    assert list(wrong_gates(gates)) == []
    assert list(unusable_gates(gates)) == messages


@pytest.mark.parametrize(
    ("gates", "messages"),
    [
        ({"MemoryQos": True}, ["unrecognized feature gate: MemoryQos (did you mean MemoryQoS?)"]),
        (
            {"Zz": True, "MemoryManager": True, "SidecarContainers": False, "GitRepoVolumeDriver": True},
            [
                "cannot set feature gate GitRepoVolumeDriver to true, feature is locked to false",
                "unrecognized feature gate: MemoryManager",
                "cannot set feature gate SidecarContainers to false, feature is locked to true",
                "unrecognized feature gate: Zz",
            ],
        ),
        ({"JobManagedBy": False}, ["cannot set feature gate JobManagedBy to false, feature is locked to true"]),
    ],
)
def test_unknown_and_locked_gates_are_refused_together(gates: dict[str, bool], messages: list[str]) -> None:
    assert [each.removeprefix("featureGates: ").partition(" (did")[0] for each in wrong_gates(gates)] == [
        each.partition(" (did")[0] for each in messages
    ]


@pytest.mark.parametrize(
    ("gates", "refused"),
    [
        (
            {"GracefulNodeShutdown": False, "GracefulNodeShutdownBasedOnPodPriority": False},
            ["WindowsGracefulNodeShutdown: [GracefulNodeShutdown]"],
        ),
        ({"GangScheduling": True}, ["GangScheduling: [GenericWorkload]"]),
        ({"GangScheduling": True, "GenericWorkload": True}, []),
        ({"GenericWorkload": True}, []),
        ({"AllAlpha": True}, []),
        ({"AllAlpha": True, "PodLevelResources": False, "InPlacePodLevelResourcesVerticalScaling": False}, [_MANAGERS]),
        ({"AllBeta": False}, []),
        ({"AllBeta": True, "ClusterTrustBundle": False}, ["ClusterTrustBundleProjection: [ClusterTrustBundle]"]),
        ({"ClusterTrustBundleProjection": True}, ["ClusterTrustBundleProjection: [ClusterTrustBundle]"]),
        (
            {"AllBeta": False, "RestartAllContainersOnContainerExits": True},
            ["RestartAllContainersOnContainerExits: [ContainerRestartRules NodeDeclaredFeatures]"],
        ),
        ({"GangScheduling": True, "Zz": True}, ["unrecognized feature gate: Zz"]),
    ],
)
def test_gate_that_is_on_needs_the_gates_it_depends_on(gates: dict[str, bool], refused: list[str]) -> None:
    text = " is enabled, but depends on features that are disabled"
    assert [each.removeprefix("featureGates: ").replace(text, "") for each in wrong_gates(gates)] == refused


def test_unknown_gate_is_refused_with_the_closest_known_one() -> None:
    (message,) = wrong_gates({"MemoryQos": True})
    assert message == "featureGates: unrecognized feature gate: MemoryQos (did you mean MemoryQoS?)"


@pytest.mark.parametrize(
    ("gates", "name", "on"),
    [
        ({}, "MemoryQoS", False),
        ({}, "CustomCPUCFSQuotaPeriod", True),
        ({"AllAlpha": True}, "MemoryQoS", True),
        ({"AllAlpha": True, "MemoryQoS": False}, "MemoryQoS", False),
        ({"AllAlpha": True}, "KubeletCrashLoopBackOffMax", True),
        ({"AllBeta": False}, "KubeletCrashLoopBackOffMax", False),
        ({"AllBeta": False}, "CustomCPUCFSQuotaPeriod", True),
    ],
)
def test_gate_is_as_set_or_as_its_group_or_its_default(gates: dict[str, bool], name: str, on: bool) -> None:
    assert gate_is_on(gates, name) is on


def test_each_gate_has_one_state() -> None:
    assert len(SWITCHES) + len(ALWAYS_ON) + len(ABSENT) + len(ELSEWHERE) == len(KNOWN) == 240
    assert KNOWN - set(SWITCHES) >= LOCKED_ON | LOCKED_OFF and not LOCKED_ON & LOCKED_OFF
    assert set(SWITCHES) >= ALPHA | BETA and not ALPHA & BETA
    needed = set(NEEDS).union(*NEEDS.values())
    assert needed >= NEEDS_ALPHA | NEEDS_OFF and not needed & LOCKED_ON and needed <= KNOWN
    assert set(DECLARED_FEATURES) <= ALWAYS_ON, "the node announces them to the scheduler"


def test_documentation_lists_the_gates() -> None:
    text = PARITY.read_text().partition("## Feature gates")[2].partition("\n## ")[0]
    rows = {row[1].strip(): set(re.findall(r"\w+", row[2])) for row in re.findall(r"(\|)([^|]+)\|([^|]+)\|", text)}
    assert rows["always on"] == ALWAYS_ON
    assert rows["not there"] == ABSENT
    assert rows["followed"] == set(SWITCHES)
    assert rows["without effect on a node"] == ELSEWHERE
    assert rows["locked to true"] == LOCKED_ON
    assert rows["locked to false"] == LOCKED_OFF


def test_documentation_has_a_reason_for_each_gate_that_is_not_there() -> None:
    text = PARITY.read_text().partition("\n| reason | gates |\n")[2].partition("\n\n")[0]
    explained = [name for row in text.splitlines()[1:] for name in re.findall(r"\w+", row.split("|")[2])]
    assert sorted(explained) == sorted(ABSENT)

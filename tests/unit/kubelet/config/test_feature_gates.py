"""What the agent says about feature gates, and what its documentation says."""

import re
from pathlib import Path

import pytest

from pykubelet.kubelet.config.feature_gates import ABSENT, ALWAYS_ON, SWITCHES, unusable_gates
from pykubelet.kubelet.report.node.node_types import DECLARED_FEATURES

PARITY = Path(__file__).resolve().parents[4] / "docs" / "parity.md"


@pytest.mark.parametrize(
    ("gates", "messages"),
    [
        ({}, []),
        ({"SidecarContainers": True, "QOSReserved": False, "CustomCPUCFSQuotaPeriod": False}, []),
        ({"SidecarContainers": False}, ["SidecarContainers=false: the feature cannot be switched off"]),
        (
            {"MemoryManager": True, "QOSReserved": True},
            [
                "MemoryManager=true: the feature is not implemented",
                "QOSReserved=true: the feature is not implemented",
            ],
        ),
        ({"AllAlpha": True}, ["AllAlpha: has no effect; name the gates"]),
        ({"MemoryQos": True}, ["unrecognized feature gate: MemoryQos (did you mean MemoryQoS?)"]),
        ({"JobManagedBy": True}, ["unrecognized feature gate: JobManagedBy"]),
    ],
)
def test_gates_that_the_agent_does_not_follow_are_named(gates: dict[str, bool], messages: list[str]) -> None:
    assert list(unusable_gates(gates)) == messages


def test_each_gate_has_one_state() -> None:
    assert not (SWITCHES & ALWAYS_ON) | (SWITCHES & ABSENT) | (ALWAYS_ON & ABSENT)
    assert set(DECLARED_FEATURES) <= ALWAYS_ON, "the node announces them to the scheduler"


def test_documentation_lists_the_gates() -> None:
    text = PARITY.read_text().partition("## Feature gates")[2].partition("\n## ")[0]
    rows = {row[1].strip(): set(re.findall(r"\w+", row[2])) for row in re.findall(r"(\|)([^|]+)\|([^|]+)\|", text)}
    assert rows["always on"] == ALWAYS_ON
    assert rows["not there"] == ABSENT
    assert rows["followed"] == SWITCHES

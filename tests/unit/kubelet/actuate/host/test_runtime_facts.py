"""Facts about the container runtime before and after its first reply."""

import pytest

from pykubelet.kubelet.actuate.host import RuntimeFacts
from pykubelet.pb import runtime_v1_pb2 as pb


def facts(status: pb.StatusResponse) -> RuntimeFacts:
    found = RuntimeFacts()
    found.learn(pb.VersionResponse(runtime_name="containerd", runtime_version="2.1"), status)
    return found


def test_strict_groups_are_unknown_before_the_first_reply() -> None:
    assert RuntimeFacts().strict_groups is None


@pytest.mark.parametrize(
    ("status", "supported"),
    [
        (pb.StatusResponse(), False),
        (pb.StatusResponse(features=pb.RuntimeFeatures(supplemental_groups_policy=False)), False),
        (pb.StatusResponse(features=pb.RuntimeFeatures(supplemental_groups_policy=True)), True),
    ],
)
def test_runtime_that_does_not_report_strict_groups_does_not_support_them(
    status: pb.StatusResponse, supported: bool
) -> None:
    assert facts(status).strict_groups is supported

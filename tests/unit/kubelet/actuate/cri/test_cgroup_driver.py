"""The cgroup driver that counts."""

import pytest

from pykubelet.kubelet.actuate.cri.plan.cgroup_driver import other_driver
from pykubelet.pb import runtime_v1_pb2 as pb


def reply(driver: pb.CgroupDriver.ValueType) -> pb.RuntimeConfigResponse:
    return pb.RuntimeConfigResponse(linux=pb.LinuxRuntimeConfiguration(cgroup_driver=driver))


@pytest.mark.parametrize(
    ("reported", "used", "other"),
    [
        (reply(pb.SYSTEMD), "cgroupfs", "systemd"),
        (reply(pb.CGROUPFS), "systemd", "cgroupfs"),
        (reply(pb.SYSTEMD), "systemd", None),
        (pb.RuntimeConfigResponse(), "systemd", None),
    ],
)
def test_driver_of_the_runtime_counts_if_it_is_reported(
    reported: pb.RuntimeConfigResponse, used: str, other: str | None
) -> None:
    assert other_driver(reported, used) == other

"""The configuration's fields about the node shutdown."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.kubelet.config import KubeletConfiguration, Settings
from pykubelet.kubelet.config.v1beta1 import ShutdownGracePeriodByPodPriority
from pykubelet.kubelet.observe.node_shutdown.plan.groups import Period
from pykubelet.kubelet.observe.node_shutdown.shutdown_config import shutdown_config

CRITICAL = 2_000_000_000
BY_PRIORITY = (ShutdownGracePeriodByPodPriority(priority=7, shutdown_grace_period_seconds=30),)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ()),
        (
            {"shutdown_grace_period": "1m", "shutdown_grace_period_critical_pods": "10s"},
            (Period(0, 50), Period(CRITICAL, 10)),
        ),
        ({"shutdown_grace_period_by_pod_priority": BY_PRIORITY}, (Period(7, 30),)),
    ],
)
def test_periods_are_those_of_the_configuration(fields: dict[str, Any], expected: tuple[Period, ...]) -> None:
    config = replace(KubeletConfiguration(), **fields)
    found = shutdown_config(Settings("n", config, "unix:///run/x.sock", root_dir=Path("/r")))
    assert found.periods == expected
    assert found.state_file.parent == Path("/r")
    assert found.drop_in == Path("/etc/systemd/logind.conf.d/99-kubelet.conf")

"""The policy for the resource settings of pods on a machine."""

from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.base.units import Bytes
from pykubelet.kubelet.actuate.cgroups import (
    PolicyConfig,
    node_policy,
)
from pykubelet.linux import system
from pykubelet.linux.cgroups import Layout, Mode


@pytest.fixture
def swapping(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 8 GiB of memory and 4 of swap."""
    memory = system.MemInfo(Bytes(8 << 30), Bytes(6 << 30), Bytes(6 << 30), Bytes(4 << 30), Bytes(4 << 30))
    monkeypatch.setattr(system, "meminfo", lambda: memory)


@pytest.mark.usefixtures("swapping")
@pytest.mark.parametrize(
    ("config", "swap", "single"),
    [
        (PolicyConfig(), 0, False),
        (PolicyConfig(limited_swap=True), 4 << 30, False),
        (PolicyConfig(single_process_oom_kill=True), 0, True),
        (PolicyConfig(single_process_oom_kill=False), 0, False),
        (PolicyConfig(refuse_v1=True), 0, False),
    ],
)
def test_the_policy_follows_the_configuration(config: PolicyConfig, swap: int, single: bool) -> None:
    policy = node_policy(Layout(Mode.V2, Path("/none")), config)
    assert (policy.swap, policy.single_process_oom_kill) == (swap, single)


@pytest.mark.usefixtures("swapping")
@pytest.mark.parametrize(
    ("config", "mode", "message"),
    [
        (PolicyConfig(limited_swap=True), Mode.V1, "LimitedSwap: cgroup v2 is required"),
        (PolicyConfig(single_process_oom_kill=False), Mode.V1, "singleProcessOOMKill: false: cgroup v2 is required"),
        (PolicyConfig(refuse_swap=True), Mode.V2, "failSwapOn: false"),
        (PolicyConfig(refuse_v1=True), Mode.V1, "configured to not run on a host using cgroup v1"),
        (PolicyConfig(refuse_v1=True), Mode.HYBRID, "configured to not run on a host using cgroup v1"),
    ],
)
def test_policies_that_the_machine_does_not_allow(config: PolicyConfig, mode: Mode, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        node_policy(Layout(mode, Path("/none")), config)

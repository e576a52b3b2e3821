"""Requirements of the configuration on the resource settings of pods."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.base.units import Bytes
from pykubelet.kubelet.actuate.cgroups import PolicyConfig, policy_config
from pykubelet.kubelet.config import ClusterSettings, KubeletConfiguration, Settings
from pykubelet.kubelet.config.v1beta1 import MemorySwapConfiguration


def policy(*, cluster: bool = False, **fields: Any) -> PolicyConfig:
    config = replace(KubeletConfiguration(), **fields)
    joined = ClusterSettings(Path("/none")) if cluster else None
    return policy_config(Settings("n", config, "unix:///none", cluster=joined), Bytes(1000))


@pytest.mark.parametrize(
    ("cluster", "fail", "refused"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_swap_is_refused_only_by_a_node_of_a_cluster(cluster: bool, fail: bool, refused: bool) -> None:
    assert policy(cluster=cluster, fail_swap_on=fail).refuse_swap is refused


@pytest.mark.parametrize(("behavior", "limited"), [("", False), ("NoSwap", False), ("LimitedSwap", True)])
def test_containers_use_swap_only_with_its_limited_behavior(behavior: str, limited: bool) -> None:
    assert policy(memory_swap=MemorySwapConfiguration(swap_behavior=behavior)).limited_swap is limited


def test_period_of_the_cpu_quota_is_in_whole_microseconds() -> None:
    assert policy(cpu_cfs_quota_period="50ms").cfs_period_us == 50_000


def test_memory_quality_of_service_needs_its_feature_gate() -> None:
    assert policy(memory_reservation_policy="TieredReservation").memory_qos is None
    found = policy(feature_gates={"MemoryQoS": True}, memory_throttling_factor=0.5)
    assert found.memory_qos is not None
    assert (found.memory_qos.factor, found.memory_qos.allocatable, found.memory_qos.tiered) == (0.5, 1000, False)
    tiered = policy(feature_gates={"MemoryQoS": True}, memory_reservation_policy="TieredReservation")
    assert tiered.memory_qos is not None and tiered.memory_qos.tiered

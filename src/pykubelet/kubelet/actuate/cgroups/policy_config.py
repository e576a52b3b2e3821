"""The configuration's fields about the resource settings of pods."""

from typing import Final

from pykubelet.base.units import Bytes
from pykubelet.kubelet.actuate.cgroups.cgroup_types import PolicyConfig
from pykubelet.kubelet.actuate.cgroups.plan.memory_qos import MemoryQos
from pykubelet.kubelet.config import KubeletConfiguration, Settings, gate_is_on

_MICROSECONDS: Final = 1_000_000


def policy_config(settings: Settings, allocatable: Bytes) -> PolicyConfig:
    """Convert the configuration's fields. ``allocatable``: the memory that pods may use together."""
    config = settings.config
    return PolicyConfig(
        pod_pids_limit=config.pod_pids_limit,
        cpu_cfs_quota=config.cpu_cfs_quota,
        cfs_period_us=round(settings.seconds(config.cpu_cfs_quota_period) * _MICROSECONDS),
        refuse_v1=config.fail_cgroup_v1,
        single_process_oom_kill=config.single_process_oom_kill,
        limited_swap=config.memory_swap.swap_behavior == "LimitedSwap",
        # A standalone node may have swap; its containers do not use it.
        refuse_swap=config.fail_swap_on and settings.cluster is not None,
        memory_qos=_memory_qos(config, allocatable),
    )


def _memory_qos(config: KubeletConfiguration, allocatable: Bytes) -> MemoryQos | None:
    if not gate_is_on(config.feature_gates, "MemoryQoS"):
        return None
    return MemoryQos(
        factor=config.memory_throttling_factor,
        allocatable=allocatable,
        tiered=config.memory_reservation_policy == "TieredReservation",
    )

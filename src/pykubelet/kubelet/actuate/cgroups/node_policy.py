"""The policy for the resource settings of pods on this machine, from its memory, huge page sizes and cgroups."""

import logging
import os
from typing import Final

from msgspec.structs import replace

from pykubelet.base.errors import Invalid
from pykubelet.base.units import Bytes
from pykubelet.kubelet.actuate.cgroups.cgroup_types import PolicyConfig
from pykubelet.kubelet.actuate.cgroups.plan.linux_resources import NodePolicy
from pykubelet.kubelet.actuate.cgroups.plan.memory_qos import MemoryQos
from pykubelet.linux import system
from pykubelet.linux.cgroups import Layout, Mode

_log = logging.getLogger(__name__)

_NO_LIVELOCK: Final = (5, 9)
"""The first kernel in which memory.high does not stall a process for ever (commit b3ff92916af3)."""


def check_policy(layout: Layout, config: PolicyConfig) -> None:
    """Check that the machine is as the configuration requires. Blocks briefly.

    Raises Invalid if the configuration needs cgroup v2 and the machine has v1, or if swap is on and must not be.
    """
    if config.refuse_v1 and layout.mode is not Mode.V2:
        raise Invalid(
            "failCgroupV1: kubelet is configured to not run on a host using cgroup v1: boot with "
            "systemd.unified_cgroup_hierarchy=1, or set failCgroupV1: false"
        )
    v2_only = [
        *(["memorySwap.swapBehavior: LimitedSwap"] if config.limited_swap else []),
        *(["singleProcessOOMKill: false"] if config.single_process_oom_kill is False else []),
    ]
    if v2_only and layout.version == 1:
        raise Invalid(f"{' and '.join(v2_only)}: cgroup v2 is required, but this machine has version 1")
    if config.refuse_swap and system.meminfo().swap_total:
        raise Invalid("failSwapOn: swap is on: switch it off (swapoff -a), or set failSwapOn: false")


def node_policy(layout: Layout, config: PolicyConfig) -> NodePolicy:
    """Build the policy from the machine's memory, huge page sizes and cgroups. Blocks briefly.

    Raises Invalid as ``check_policy``.
    """
    check_policy(layout, config)
    meminfo = system.meminfo()
    memory_root = layout.controllers.get("memory")
    swap = (
        system.own_cgroup_has("memory.swap.max")
        if layout.mode is Mode.V2
        else memory_root is not None and (memory_root / "memory.memsw.limit_in_bytes").exists()
    )
    return NodePolicy(
        memory_capacity=meminfo.total,
        cgroup_version=layout.version,
        cpu_cfs_quota=config.cpu_cfs_quota,
        cfs_period_us=config.cfs_period_us,
        hugepage_sizes=tuple(pages.size for pages in system.hugepages()),
        swap_controller=swap,
        swap=meminfo.swap_total if config.limited_swap else Bytes(0),
        single_process_oom_kill=bool(config.single_process_oom_kill),
        pod_pids_limit=config.pod_pids_limit,
        memory_qos=_memory_qos(layout, config.memory_qos),
    )


def _memory_qos(layout: Layout, wanted: MemoryQos | None) -> MemoryQos | None:
    if wanted is None:
        return None
    if layout.mode is not Mode.V2:
        _log.warning("memory QoS not applied: cgroup v2 is required")
        return None
    if system.kernel_release() < _NO_LIVELOCK:
        _log.warning(
            "memory QoS: throttling by memory.high can hang processes on this kernel", extra={"fixed_in": "5.9"}
        )
    return replace(wanted, page_size=Bytes(os.sysconf("SC_PAGE_SIZE")))

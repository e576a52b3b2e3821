"""Builds the CRI message of cgroup settings, for creation and for resize."""

from pykubelet.kubelet.actuate.cgroups.plan.linux_resources import LinuxResources
from pykubelet.pb import runtime_v1_pb2 as pb


def resources_message(resources: LinuxResources) -> pb.LinuxContainerResources:
    """Convert cgroup settings to the CRI message; zero means not set."""
    return pb.LinuxContainerResources(
        cpu_shares=resources.cpu_shares,
        cpu_quota=resources.cpu_quota_us,
        cpu_period=resources.cpu_period_us,
        memory_limit_in_bytes=resources.memory_limit,
        memory_swap_limit_in_bytes=resources.memory_swap_limit,
        oom_score_adj=resources.oom_score_adj,
        hugepage_limits=[pb.HugepageLimit(page_size=size, limit=limit) for size, limit in resources.hugepages],
        unified=dict(resources.unified),
    )

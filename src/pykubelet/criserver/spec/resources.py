"""Builds cgroup limits in OCI form. Pure."""

from pykubelet.criserver.spec.spec_types import Host, HostDevice, Json
from pykubelet.pb import runtime_v1_pb2 as pb


def build_resources(asked: pb.LinuxContainerResources, host: Host) -> Json:
    """Build ``linux.resources`` of a container; zero in the request means that no limit is set."""
    resources: Json = {}
    cpu = {
        "shares": asked.cpu_shares,
        "quota": asked.cpu_quota,
        "period": asked.cpu_period,
        "cpus": asked.cpuset_cpus,
        "mems": asked.cpuset_mems,
    }
    cpu_set = {name: value for name, value in cpu.items() if value}
    if cpu_set:
        resources["cpu"] = cpu_set
    if asked.memory_limit_in_bytes:
        memory: dict[str, int] = {"limit": asked.memory_limit_in_bytes}
        if host.swap and "memory.swap.max" not in asked.unified:
            # No swap unless requested: the limit of memory and swap together is the limit of memory.
            memory["swap"] = asked.memory_swap_limit_in_bytes or asked.memory_limit_in_bytes
        resources["memory"] = memory
    hugepages = [
        {"pageSize": each.page_size, "limit": each.limit}
        for each in asked.hugepage_limits
        if each.page_size in host.hugepage_sizes
    ]
    if hugepages:
        resources["hugepageLimits"] = hugepages
    if host.cgroup_version == 2:
        # Explicitly unlimited: else systemd limits scopes by default. The pod's cgroup has the real limit.
        resources["pids"] = {"limit": -1}
        if asked.unified:
            resources["unified"] = dict(asked.unified)
    return resources


def device_rules(devices: tuple[HostDevice, ...], all_devices: bool) -> list[Json]:
    """Build the rules of the device cgroup: only these devices, and the default ones, which the runtime adds."""
    if all_devices:
        return [{"allow": True, "access": "rwm"}]
    rules: list[Json] = [{"allow": False, "access": "rwm"}]
    for device in devices:
        rules.append(
            {
                "allow": True,
                "type": device.kind,
                "major": device.major,
                "minor": device.minor,
                "access": device.access,
            }
        )
    return rules

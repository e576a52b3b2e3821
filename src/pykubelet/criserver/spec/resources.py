"""Cgroup limits in OCI form. Pure."""

from pykubelet.criserver.spec.types import Host, HostDevice, Json
from pykubelet.pb import runtime_v1_pb2 as pb


def build_resources(asked: pb.LinuxContainerResources, host: Host) -> Json:
    """Limits of a container as ``linux.resources``; zero means that nothing was asked."""
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
            # Without a word about swap a container gets none: its limit for both is that of memory.
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
        # Unlimited must be said: else systemd gives scopes a part of the machine's. What counts is the pod's limit.
        resources["pids"] = {"limit": -1}
        if asked.unified:
            resources["unified"] = dict(asked.unified)
    return resources


def device_rules(devices: tuple[HostDevice, ...], privileged: bool) -> list[Json]:
    """What the device cgroup allows: nothing but the usual ones (the runtime adds them) and those given."""
    if privileged:
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

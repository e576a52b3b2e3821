"""Computes the limits of node allocatable: those of all pods together, and those of the cgroups of daemons.

Source: ``enforceNodeAllocatableCgroups`` of the Go kubelet (``pkg/kubelet/cm/node_container_manager_linux.go``), and
the Kubernetes documentation, "Reserve Compute Resources for System Daemons".
"""

from collections.abc import Mapping
from typing import Final

from pykubelet.base.errors import Invalid
from pykubelet.base.units import Bytes, MilliCPU
from pykubelet.kubelet.actuate.cgroups import ReservedCgroup, RootLimits
from pykubelet.kubelet.actuate.cgroups.plan.linux_resources import milli_cpu_to_shares, page_size_name
from pykubelet.kubelet.actuate.host.machine_resources import reservations
from pykubelet.kubelet.config import KubeletConfiguration, Settings
from pykubelet.kubelet.config.node_rules import COMPRESSIBLE, KUBE, PODS, SYSTEM
from pykubelet.kubelet.types.resources.allocatable import MachineResources, node_capacity, too_much_reserved, unreserved
from pykubelet.kubelet.types.resources.pod_requests import CPU, HUGEPAGES_PREFIX, MEMORY
from pykubelet.linux.cgroups import CgroupResources
from pykubelet.models.quantity import NANO, parse
from pykubelet.models.scalars import Quantity

PIDS: Final = "pid"
"""Name of process IDs in reservations."""


def root_limits(settings: Settings, machine: MachineResources, pid_limit: int) -> RootLimits:
    """Return the limits of all pods together; memory and process IDs have one only if some are reserved.

    ``pid_limit``: the number of processes that the kernel allows. Raises Invalid if more is reserved than is there,
    whether it is enforced or not: nothing would be left for pods.
    """
    reserved, capacity = reservations(settings), node_capacity(machine)
    for name, wanted in too_much_reserved(capacity, reserved).items():
        raise Invalid(
            f"kubeReserved, systemReserved, evictionHard: {wanted} of {name} are reserved, but the machine has "
            f"{capacity[name]}; reserve less"
        )
    if PODS not in settings.config.enforce_node_allocatable:
        return RootLimits(MilliCPU(capacity[CPU].milli))
    limits = unreserved(capacity, reserved)
    memory = limits[MEMORY] if limits[MEMORY] != capacity[MEMORY] else None
    pids = sum(parse(given[PIDS]).nano // NANO for given in (reserved.kube, reserved.system) if PIDS in given)
    if pids >= pid_limit:
        raise Invalid(f"kubeReserved, systemReserved: all {pid_limit} process IDs are reserved; reserve less")
    return RootLimits(
        MilliCPU(limits[CPU].milli),
        Bytes(memory.value) if memory is not None else None,
        pid_limit - pids if pids else None,
    )


def reserved_cgroups(config: KubeletConfiguration) -> tuple[ReservedCgroup, ...]:
    """Return the cgroups of daemons that get limits. Raises Invalid for an invalid quantity."""
    given = (
        ("system", SYSTEM, config.system_reserved_cgroup, config.system_reserved),
        ("kube", KUBE, config.kube_reserved_cgroup, config.kube_reserved),
    )
    found = []
    for title, kind, path, amounts in given:
        if kind in config.enforce_node_allocatable:
            found.append(ReservedCgroup(title, path, _limits(amounts)))
        elif kind + COMPRESSIBLE in config.enforce_node_allocatable:
            found.append(ReservedCgroup(title, path, CgroupResources(cpu_shares=_limits(amounts).cpu_shares)))
    return tuple(found)


def _limits(amounts: Mapping[str, Quantity]) -> CgroupResources:
    parsed = {name: parse(text) for name, text in amounts.items()}
    pages = {name: amount for name, amount in parsed.items() if name.startswith(HUGEPAGES_PREFIX)}
    return CgroupResources(
        cpu_shares=milli_cpu_to_shares(MilliCPU(parsed[CPU].milli)) if CPU in parsed else None,
        memory_max=Bytes(parsed[MEMORY].value) if MEMORY in parsed else None,
        pids_max=parsed[PIDS].value if PIDS in parsed else None,
        hugepages=tuple(
            (page_size_name(Bytes(parse(name.removeprefix(HUGEPAGES_PREFIX)).value)), Bytes(amount.value))
            for name, amount in pages.items()
        ),
    )

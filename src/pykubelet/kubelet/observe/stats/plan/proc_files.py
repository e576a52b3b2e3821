"""Parsing of files of /proc to the machine's usage. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final

from pykubelet.kubelet.observe.stats.plan.cgroup_files import TICK_NS, keyed
from pykubelet.kubelet.types.resources.usage import CpuUsage, DiskActivity, MemoryUsage
from pykubelet.linux.procparse import Membership, NetDevice, Stat

_KIB: Final = 1024
_NOT_ITS_OWN: Final = ("lo", "veth", "docker", "nerdctl")
"""Prefixes of loopback and pod interfaces, which the Go kubelet leaves out too."""


def machine_cpu(stat: str) -> CpuUsage | None:
    """Parse the machine's CPU time from /proc/stat, in steps of 10 ms; waiting for I/O counts as idle."""
    for line in stat.splitlines():
        words = line.split()
        if words and words[0] == "cpu":
            ticks = [int(word) for word in words[1:9]]
            user, nice, system, _, _, irq, softirq, steal = [*ticks, *[0] * (8 - len(ticks))]
            busy = user + nice + system + irq + softirq + steal
            return CpuUsage(
                total_ns=busy * TICK_NS, user_ns=(user + nice) * TICK_NS, system_ns=(busy - user - nice) * TICK_NS
            )
    return None


def machine_memory(meminfo: str, vmstat: str) -> MemoryUsage:
    """Compute the machine's memory from /proc, since the root of cgroup v2 has no memory counters."""
    table = {name: value * _KIB for name, value in keyed(_plain(meminfo)).items()}
    faults = keyed(vmstat)
    usage = table.get("MemTotal", 0) - table.get("MemFree", 0)
    inactive = table.get("Inactive(file)", 0)
    return MemoryUsage(
        usage=usage,
        working_set=max(0, usage - inactive),
        rss=table.get("AnonPages", 0),
        cache=table.get("Cached", 0),
        mapped_file=table.get("Mapped", 0),
        active_file=table.get("Active(file)", 0),
        inactive_file=inactive,
        kernel=table.get("Slab"),
        swap=table.get("SwapTotal", 0) - table.get("SwapFree", 0),
        page_faults=faults.get("pgfault", 0),
        major_page_faults=faults.get("pgmajfault", 0),
        limit=table.get("MemTotal"),
        swap_limit=table.get("SwapTotal"),
        oom_kills=faults.get("oom_kill"),
    )


def interfaces(devices: Iterable[NetDevice]) -> tuple[NetDevice, ...]:
    """Return the devices without the loopback and the interfaces of pods."""
    return tuple(device for device in devices if not device.name.startswith(_NOT_ITS_OWN))


def default_interface(route: str, known: Sequence[NetDevice]) -> str:
    """Return the interface of the default route (/proc/net/route), else ``eth0``, else the first one."""
    for line in route.splitlines()[1:]:
        words = line.split()
        if len(words) > 7 and words[1] == words[7] == "00000000":
            return words[0]
    names = [interface.name for interface in known]
    return "eth0" if "eth0" in names else next(iter(names), "")


def process_usage(stat: Stat, page: int) -> tuple[CpuUsage, MemoryUsage]:
    """Compute the CPU time and memory of a process; ``page`` is the page size in bytes."""
    user, system = stat.user_ticks * TICK_NS, stat.system_ticks * TICK_NS
    rss = stat.resident_pages * page
    memory = MemoryUsage(
        usage=rss,
        working_set=rss,
        rss=rss,
        page_faults=stat.minor_faults + stat.major_faults,
        major_page_faults=stat.major_faults,
    )
    return CpuUsage(total_ns=user + system, user_ns=user, system_ns=system), memory


def disk_activity(diskstats: str) -> dict[str, DiskActivity]:
    """Parse /proc/diskstats to the activity by device, ``/dev/sda`` (docs.kernel.org, "iostats")."""
    found: dict[str, DiskActivity] = {}
    for words in map(str.split, diskstats.splitlines()):
        if len(words) >= 14 and all(word.isdecimal() for word in words[3:14]):
            values = [int(word) for word in words[3:14]]
            found[f"/dev/{words[2]}"] = DiskActivity(
                reads_merged=values[1],
                sectors_read=values[2],
                read_ms=values[3],
                writes_merged=values[5],
                sectors_written=values[6],
                write_ms=values[7],
                in_progress=values[8],
                io_ms=values[9],
                weighted_io_ms=values[10],
            )
    return found


def processors(cpuinfo: str) -> tuple[int, int]:
    """Count (physical cores, sockets) in /proc/cpuinfo; (0, 0) where it lacks them, as on most ARM machines."""
    cores: set[tuple[str, str]] = set()
    socket = ""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        match name.strip():
            case "physical id":
                socket = value.strip()
            case "core id":
                cores.add((socket, value.strip()))
    return len(cores), len({socket for socket, _ in cores})


def own_cgroup(memberships: Iterable[Membership], controllers: Iterable[str]) -> str:
    """Return the cgroup of a process in the hierarchy of one of the controllers (cgroup v2: "")."""
    wanted = set(controllers)
    return next((each.path for each in memberships if wanted & set(each.controllers or ("",))), "/")


def _plain(meminfo: str) -> str:
    return meminfo.replace(":", " ").replace(" kB", "")

"""Readings of a node with one pod of one container."""

from pykubelet.kubelet.types.resources.stats import PsiData, PsiStats
from pykubelet.kubelet.types.resources.usage import (
    CgroupUsage,
    CpuUsage,
    DeviceIo,
    DiskActivity,
    Filesystem,
    MachineFacts,
    MemoryUsage,
    Pressure,
    Processes,
    Reading,
    Readings,
)
from pykubelet.linux.procparse import NetDevice

AT = 1_700_000_000.5
POD = "/kubepods/burstable/pod1"
MACHINE = MachineFacts(
    machine_id="m",
    system_uuid="s",
    boot_id="b",
    cores=4,
    physical_cores=2,
    sockets=1,
    memory=8 << 30,
    swap=1 << 20,
    kernel="6.1",
    os_image="Debian",
)
_PSI = PsiStats(full=PsiData(2_000_000, 0.0, 0.0, 0.0), some=PsiData(3_000_000, 0.0, 0.0, 0.0))
DISK = DiskActivity(
    reads_merged=1,
    sectors_read=2,
    read_ms=3,
    writes_merged=4,
    sectors_written=5,
    write_ms=6,
    in_progress=7,
    io_ms=8,
    weighted_io_ms=9,
)


def cgroup(path: str) -> CgroupUsage:
    """A cgroup with all kinds of usage."""
    return CgroupUsage(
        path=path,
        at=AT,
        created=5.0,
        cpu=CpuUsage(
            total_ns=2_500_000_000, user_ns=2_000_000_000, system_ns=500_000_000, shares=512, quota_us=50, period_us=100
        ),
        memory=MemoryUsage(
            usage=100, working_set=60, rss=50, swap=7, swap_limit=9, limit=200, page_faults=3, oom_kills=0
        ),
        threads=2,
        pressure=Pressure(cpu=_PSI),
        io=(DeviceIo("/dev/sda", "8:0", 1, 2, 3, 4),),
        processes=Processes(processes=1, threads=2, file_descriptors=9, sockets=1, open_files_limit=1024),
    )


READINGS = Readings(
    MACHINE,
    (
        Reading(
            usage=cgroup("/"),
            started=5.0,
            network=(NetDevice("eth0", 1, 2, 3, 4, 5, 6, 7, 8),),
            filesystems=(Filesystem(device="/dev/sda", used=70, capacity=100, inodes=10, inodes_free=4, disk=DISK),),
        ),
        Reading(
            usage=cgroup(POD), namespace="ns", pod="web", started=6.0, network=(NetDevice("eth0", 11, 12, 0, 0, 15),)
        ),
        Reading(
            usage=cgroup(f"{POD}/c1"),
            namespace="ns",
            pod="web",
            container="app",
            container_id="c1",
            image="busybox:1",
            started=7.0,
            filesystems=(Filesystem(device="/dev/sda", used=40, capacity=100),),
        ),
    ),
)

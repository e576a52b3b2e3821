from pykubelet.kubelet.observe.stats.plan import proc_files
from pykubelet.kubelet.types.resources.usage import CpuUsage, DiskActivity
from pykubelet.linux.procparse import NetDevice, parse_cgroups, parse_net_dev, parse_stat

NET_DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo: 33 3 0 0 0 0 0 0 33 3 0 0 0 0 0 0
  eth0:100 10 1 2 0 0 0 0 200 20 3 4 0 0 0 0
vethab: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0
  eth1: 5 1 0 0 0 0 0 0 6 1 0 0 0 0 0 0
"""
ROUTE = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth1\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
eth1\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
"""
MEMINFO = """MemTotal:        1000 kB
MemFree:          400 kB
Cached:           300 kB
Active(file):     100 kB
Inactive(file):   150 kB
AnonPages:        200 kB
Mapped:            50 kB
Slab:              20 kB
SwapTotal:         64 kB
SwapFree:          60 kB
HugePages_Total:       0
"""


def test_the_machines_cpu_time_leaves_idle_and_waiting_out() -> None:
    stat = "cpu  100 10 50 9999 777 1 2 3 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\nbtime 5\n"
    assert proc_files.machine_cpu(stat) == CpuUsage(
        total_ns=166 * 10_000_000, user_ns=110 * 10_000_000, system_ns=56 * 10_000_000
    )
    assert proc_files.machine_cpu("") is None


def test_memory_of_the_machine_is_computed_from_proc() -> None:
    found = proc_files.machine_memory(MEMINFO, "pgfault 70\npgmajfault 7\noom_kill 1\n")
    kib = 1024
    assert (found.usage, found.working_set, found.rss) == (600 * kib, 450 * kib, 200 * kib)
    assert (found.limit, found.swap, found.swap_limit) == (1000 * kib, 4 * kib, 64 * kib)
    assert (found.page_faults, found.major_page_faults, found.oom_kills) == (70, 7, 1)


def test_interfaces_of_the_machine_itself() -> None:
    found = proc_files.interfaces(parse_net_dev(NET_DEV.encode()))
    assert found == (NetDevice("eth0", 100, 10, 1, 2, 200, 20, 3, 4), NetDevice("eth1", 5, 1, 0, 0, 6, 1, 0, 0))
    assert proc_files.default_interface(ROUTE, found) == "eth1"
    assert proc_files.default_interface("", found) == "eth0"
    assert proc_files.default_interface("", found[1:]) == "eth1"
    assert proc_files.default_interface("", ()) == ""


def test_one_process_whatever_its_name() -> None:
    fields = [b"0"] * 50
    fields[7], fields[9], fields[11], fields[12], fields[21] = b"40", b"2", b"7", b"3", b"5"
    stat = parse_stat(1, b"1 (odd ) \xff\nname) S " + b" ".join(fields[1:]))
    assert stat is not None
    cpu, memory = proc_files.process_usage(stat, 4096)
    assert cpu == CpuUsage(total_ns=100_000_000, user_ns=70_000_000, system_ns=30_000_000)
    assert (memory.usage, memory.working_set, memory.rss) == (5 * 4096,) * 3
    assert (memory.page_faults, memory.major_page_faults) == (42, 2)


def test_cores_and_sockets_are_counted_once() -> None:
    text = "".join(f"processor\t: {n}\nphysical id\t: {n // 2}\ncore id\t\t: {n // 2 * 0}\n\n" for n in range(4))
    assert proc_files.processors(text) == (2, 2)
    assert proc_files.processors("processor : 0\nBogoMIPS : 1\n") == (0, 0)


def test_own_cgroup_is_read_for_the_controllers() -> None:
    hybrid = parse_cgroups(b"5:cpu,cpuacct:/a\n3:memory:/b\n0::/c\n")
    assert proc_files.own_cgroup(hybrid, ("cpuacct", "memory")) == "/a"
    assert proc_files.own_cgroup(hybrid, ("",)) == "/c"
    assert proc_files.own_cgroup((), ("",)) == "/"


def test_disk_activity_with_columns_of_a_newer_kernel_is_parsed() -> None:
    """Kernels from 4.18 on have further columns; a line that is too short is left out."""
    text = " 254  0 vda 64 18 2300 7 56 22 1477 15 3 16 17 30 1 2 3 4 5\n   7  0 loop0 1 2\n"
    activity = DiskActivity(
        reads_merged=18,
        sectors_read=2300,
        read_ms=7,
        writes_merged=22,
        sectors_written=1477,
        write_ms=15,
        in_progress=3,
        io_ms=16,
        weighted_io_ms=17,
    )
    assert proc_files.disk_activity(text) == {"/dev/vda": activity}
    assert proc_files.disk_activity("") == {}

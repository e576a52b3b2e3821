"""Reads the usage of the machine, the agent and the runtime, and pods' network counters. Blocks; called in threads."""

import os
import socket
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.stats.cgroup_reader import CgroupReader
from pykubelet.kubelet.observe.stats.plan import cgroup_files, proc_files
from pykubelet.kubelet.observe.stats.snapshot_types import Daemon
from pykubelet.kubelet.types.resources.usage import CgroupUsage, DiskActivity, MachineFacts
from pykubelet.linux import procfs, system
from pykubelet.linux.cgroups import Layout, Mode
from pykubelet.linux.procparse import NetDevice

_CONTROLLERS: Final = ("cpuacct", "memory")
_MAPPED: Final = Path("/dev/mapper")
"""Directory of the names of mapped devices; the kernel's counters have ``dm-0``."""
_MOST_INTERFACES: Final = 64
"""Of one pod; each has eight series in ``/metrics/cadvisor``."""
_PEER: Final = struct.Struct("3i")


class MachineReader:
    """The reader of the machine, of the agent's and the runtime's processes, and of network counters."""

    def __init__(self, *, layout: Layout, cgroups: CgroupReader, runtime_endpoint: str) -> None:
        self._layout = layout
        self._cgroups = cgroups
        self._runtime_socket = runtime_endpoint.removeprefix("unix://")
        self._boot = system.boot_time()
        self._own_netns = procfs.namespace(os.getpid(), "net")
        self._runtime: procfs.Stat | None = None

    @property
    def booted(self) -> Seconds:
        """Unix time of the last boot."""
        return self._boot

    def usage(self, at: Seconds, *, full: bool) -> CgroupUsage:
        """Read the machine's usage, as that of the cgroup ``/``."""
        root = self._cgroups.read("/", at, full=full)
        files = {f"{what}.pressure": procfs.machine(f"pressure/{what}") for what in ("cpu", "memory", "io")}
        return CgroupUsage(
            path="/",
            at=at,
            created=self._boot,
            cpu=(root.cpu if root is not None else None) or proc_files.machine_cpu(procfs.machine("stat")),
            memory=proc_files.machine_memory(procfs.machine("meminfo"), procfs.machine("vmstat")),
            threads=system.process_count(),
            pressure=cgroup_files.pressure(files),
            io=root.io if root is not None else (),
        )

    def network(self) -> tuple[tuple[NetDevice, ...], str]:
        """Read the machine's interfaces and the name of the default one."""
        found = proc_files.interfaces(procfs.network_devices("self"))
        return found, proc_files.default_interface(procfs.machine("self/net/route"), found)

    def disks(self) -> Mapping[str, DiskActivity]:
        """Read the activity of the block devices by path; a mapped device has both of its paths."""
        found = proc_files.disk_activity(procfs.machine("diskstats"))
        names = _MAPPED.iterdir() if _MAPPED.is_dir() else ()
        mapped = {str(name): found[real] for name in names if (real := os.path.realpath(name)) in found}
        return {**found, **mapped}

    def pod_network(self, pids: Iterable[int]) -> tuple[NetDevice, ...]:
        """Read the interfaces of the first of these processes that is not in the agent's network namespace.

        A process may be in one that it has made itself, with any number of interfaces.
        """
        for pid in pids:
            if procfs.namespace(pid, "net") not in (None, self._own_netns):
                found = proc_files.interfaces(procfs.network_devices(pid))
                return tuple(sorted(found, key=lambda each: each.name != "eth0")[:_MOST_INTERFACES])
        return ()

    def daemons(self, at: Seconds) -> list[Daemon]:
        """Read the usage of the agent and, if its process is found, of the runtime."""
        found = [self._daemon("kubelet", os.getpid(), at)]
        runtime = self._runtime_pid()
        if runtime:
            found.append(self._daemon("runtime", runtime, at))
        return [daemon for daemon in found if daemon is not None]

    def describe(self) -> MachineFacts:
        """Read the machine's identity and size."""
        memory = system.meminfo()
        cores, sockets = proc_files.processors(procfs.machine("cpuinfo"))
        return MachineFacts(
            machine_id=system.machine_id(),
            system_uuid=system.system_uuid(),
            boot_id=system.boot_id(),
            cores=system.cpu_count(),
            physical_cores=cores or system.cpu_count(),
            sockets=sockets or 1,
            memory=memory.total,
            swap=memory.swap_total,
            kernel=system.kernel_version(),
            os_image=system.os_image(),
        )

    def _runtime_pid(self) -> int:
        """Return the runtime's process id, found again when the known process has ended; 0: unknown."""
        known = self._runtime
        now = procfs.stat(known.pid) if known else None
        if known is None or now is None or now.started != known.started:
            pid = _peer(self._runtime_socket)
            self._runtime = procfs.stat(pid) if pid else None
        return self._runtime.pid if self._runtime else 0

    def _daemon(self, name: str, pid: int, at: Seconds) -> Daemon | None:
        controllers = ("",) if self._layout.mode is Mode.V2 else _CONTROLLERS
        path = proc_files.own_cgroup(procfs.cgroups(pid) or (), controllers)
        stat = procfs.stat(pid)
        if stat is None:
            return None
        started = self._boot + stat.started / os.sysconf("SC_CLK_TCK")
        usage = self._cgroups.read(path, at, full=False) if path != "/" else None
        if usage is None or usage.cpu is None:
            cpu, memory = proc_files.process_usage(stat, os.sysconf("SC_PAGE_SIZE"))
            usage = CgroupUsage(path=f"pid:{pid}", at=at, created=started, cpu=cpu, memory=memory)
        return Daemon(name, started, usage)


def _peer(path: str) -> int:
    """Return the process that listens on a unix socket; 0: not found."""
    if not path.startswith("/"):
        return 0
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as probe:
            probe.settimeout(0.5)
            probe.connect(path)
            pid, _, _ = _PEER.unpack(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
            return int(pid)
    except OSError:
        return 0

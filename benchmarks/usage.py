"""CPU time and memory of a process and its children, from /proc."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_STOLEN_SHARE = 0.02
"""Share of one core that the host may take without a remark."""
_MIB = 1024.0
"""KiB per MiB; /proc reports KiB."""


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU time and memory, summed over a process and its descendants."""

    cpu_seconds: float
    """User and system time since the start, including reaped children; the kernel counts in steps of 10 ms."""
    rss_mib: float
    pss_mib: float
    """Proportional set size: each shared page is divided among its users."""


def usage(pid: int) -> Usage:
    """The current usage of the process and its descendants; ``ProcessLookupError`` if it is gone."""
    cpu = rss = pss = 0.0
    for each in _tree(pid):
        try:
            one = _own(each)
        except (FileNotFoundError, ProcessLookupError):
            if each == pid:
                raise ProcessLookupError(f"process {pid} is gone") from None
            continue
        cpu, rss, pss = cpu + one.cpu_seconds, rss + one.rss_mib, pss + one.pss_mib
    return Usage(cpu, rss, pss)


def _own(pid: int) -> Usage:
    fields = _stat(pid)
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    # utime, stime, cutime and cstime are fields 14 to 17 of proc(5); the list begins with field 3.
    cpu = sum(map(int, fields[11:15])) / _TICKS
    return Usage(cpu, _kib(rollup, "Rss:") / _MIB, _kib(rollup, "Pss:") / _MIB)


def sum_of(pids: Iterable[int]) -> Usage:
    """The current usage of these processes, without their descendants; processes that have ended are ignored."""
    cpu = rss = pss = 0.0
    for pid in pids:
        try:
            one = _own(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue
        cpu, rss, pss = cpu + one.cpu_seconds, rss + one.rss_mib, pss + one.pss_mib
    return Usage(cpu, rss, pss)


def busy_seconds() -> float:
    """CPU seconds that the machine has used since its start, without idle and I/O wait time."""
    user, nice, system, _idle, _waiting, interrupts, soft, *_ = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    return (user + nice + system + interrupts + soft) / _TICKS


def stolen_seconds() -> float:
    """CPU seconds since the start that the host took while the machine had work (steal, proc_stat(5))."""
    return int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[8]) / _TICKS


def stolen_remark(seconds: float, elapsed: float) -> str:
    """Remark for readers on the time that the host took in a run of that length; empty: it does not matter."""
    share = seconds / elapsed
    if share < _STOLEN_SHARE:
        return ""
    return f"the host took {share:.0%} of a core from this machine (steal): times of other runs are not comparable"


def children_of(pids: Iterable[int]) -> list[int]:
    """The child processes of these processes, without further descendants."""
    children = _children()
    return [child for pid in pids for child in children.get(pid, ())]


def _tree(pid: int) -> list[int]:
    children = _children()
    found = [pid]
    for each in found:
        found.extend(children.get(each, ()))
    return found


def _children() -> dict[int, list[int]]:
    """The child processes of every process of the machine."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                children.setdefault(int(_stat(int(entry.name))[1]), []).append(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
    return children


def _stat(pid: int) -> list[str]:
    """The fields after the name, which may itself hold spaces and brackets."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _kib(rollup: str, name: str) -> int:
    return next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith(name))

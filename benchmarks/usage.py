"""CPU time and memory of a process and its children, from /proc."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_MIB = 1024.0
"""KiB in it; /proc gives KiB."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Summed over a process and its descendants."""

    cpu_seconds: float
    """User and system time since the start, ended and reaped children included; the kernel counts 10 ms steps."""
    rss_mib: float
    pss_mib: float
    """Resident memory with each shared page counted in part."""


def usage(pid: int) -> Usage:
    """What the process and its descendants use now; ``ProcessLookupError`` if it is gone."""
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
    """What these processes use now, without their descendants; those that have ended are left out."""
    cpu = rss = pss = 0.0
    for pid in pids:
        try:
            one = _own(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue
        cpu, rss, pss = cpu + one.cpu_seconds, rss + one.rss_mib, pss + one.pss_mib
    return Usage(cpu, rss, pss)


def busy_seconds() -> float:
    """CPU time that all processes of the machine have used since its start, but for that in waiting for devices."""
    user, nice, system, _idle, _waiting, interrupts, soft, *_ = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    return (user + nice + system + interrupts + soft) / _TICKS


def _tree(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                children.setdefault(int(_stat(int(entry.name))[1]), []).append(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
    found = [pid]
    for each in found:
        found.extend(children.get(each, ()))
    return found


def _stat(pid: int) -> list[str]:
    """The fields after the name, which may itself hold spaces and brackets."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _kib(rollup: str, name: str) -> int:
    return next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith(name))

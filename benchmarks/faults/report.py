"""Reports: ``docs/reliability.md``, a JSON file, and the table on the terminal. Pure, except for the functions that
read and write files."""

import json
import os
import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.faults.fault import Fault
from benchmarks.faults.model import Group, Result, Subject, TryResult
from benchmarks.faults.options import Options
from pykubelet.testing.leakcheck import Kind

KINDS = (
    Kind.PROCESS,
    Kind.MOUNT,
    Kind.NETNS,
    Kind.DEVICE,
    Kind.CGROUP,
    Kind.FIREWALL,
    Kind.LOOP,
    Kind.FILE,
    Kind.ADDRESS,
)
_PLURALS = {
    Kind.PROCESS: "processes",
    Kind.MOUNT: "mounts",
    Kind.NETNS: "network namespaces",
    Kind.DEVICE: "veths",
    Kind.CGROUP: "cgroups",
    Kind.FIREWALL: "iptables rules",
    Kind.LOOP: "loop devices",
    Kind.FILE: "files",
    Kind.ADDRESS: "addresses",
}
_COUNTS = ("lost", "duplicated", "restarted")
_WHAT = """\
# Reliability

`sudo make faults TRIES=n` does every fault of this page n times to a node that runs pods, and writes this page. The
pods have every restart policy, volumes, a shared PID namespace or the host's network; one has ended. While a fault
lasts, one pod is taken away and another one added. Then the cause goes away, daemons that have ended are started again,
as an init system does, and the clock runs until the node does what is wanted of it and nothing else.

- **lost**: a pod that is wanted does not run, or one that is not wanted stays, a minute after the fault; or another pod
  did not start while a fault lasted that concerns a single one.
  What has ended of a removed pod may stay with the Go kubelet, which collects it once a minute.
- **duplicated**: a container or sandbox ran twice at a time, or a program began more often than the agent knows of.
  Every container notes each of its starts on the host.
- **restarted**: a container was started again though the fault had not ended it.
- **leaked**: what is on the machine when all pods are gone and was not before: processes, mounts, network namespaces,
  veths, cgroups, iptables rules, loop devices, files, addresses.
- **recovery**: from the end of the fault to the wanted state, median and longest. Back-off that the fault has caused
  (10 s and more after a failed start or pull, as upstream) is part of it.

The disk is an ext4 file system on a loop device; /run and /var/log are of 64 MiB each. The clock and the boot id are
changed for the daemons of this project only, not for the machine: the clock of the Go kubelet does not jump."""
_BAR = 12
"""Width of the widest bar, in characters."""
_BAR_SECONDS = 24.0
"""Seconds that the widest bar represents."""


@dataclass(frozen=True, slots=True)
class Run:
    """Date, machine and versions of a run."""

    tries: int
    options: Options
    versions: Mapping[str, str]
    date: str
    minutes: float


def machine() -> str:
    """Describe the machine in one line; the load shows whether other programs used it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return (
        f"{os.cpu_count()} CPUs, {memory:.0f} GiB, Linux {platform.release()} (load average {os.getloadavg()[2]:.0f})"
    )


def markdown(faults: Sequence[Fault], results: Sequence[Result], run: Run) -> str:
    """Format the whole document."""
    subjects = [subject for subject in Subject if any(result.subject is subject for result in results)]
    known = {(result.fault, result.subject): result for result in results}
    lines = [*_introduction(run, results, subjects), ""]
    for group in Group:
        rows = [fault for fault in faults if fault.group is group and any((fault.name, s) in known for s in subjects)]
        if rows:
            lines += [f"## {group}", "", *_table(rows, known, subjects), ""]
    lines += [*_leak_table(results, subjects), ""]
    lines += _details(results)
    return "\n".join(lines).rstrip() + "\n"


def _introduction(run: Run, results: Sequence[Result], subjects: Sequence[Subject]) -> list[str]:
    options = run.options
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    lines = [
        *_WHAT.splitlines(),
        "",
        f"{run.date}: {run.tries} tries of each fault unless the table says otherwise; {run.minutes:.0f} minutes on",
        f"{machine()}; {versions}.",
        f"A stop by SIGSTOP lasted {options.stop_seconds:g} s, the log flood {options.log_seconds:g} s; the hostile",
        f"container made {options.files:,} files, {options.sessions} sessions were dropped.",
        "",
        "| node | faults | tries | lost | duplicated | restarted | leaked | recovery p50 | longest |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for subject in subjects:
        mine = [result for result in results if result.subject is subject]
        whole = Result("", subject, [each for result in mine for each in result.tries])
        leaked = sum(result.leaked.total() for result in mine)
        cells = (*(whole.count(what) for what in _COUNTS), leaked)
        shown = " | ".join(f"**{cell}**" for cell in cells)
        times = f"{_seconds(whole.p50)} | {_seconds(whole.worst)}"
        lines.append(f"| {subject} | {len(mine)} | {len(whole.tries)} | {shown} | {times} |")
    return lines


def _table(
    faults: Sequence[Fault], known: Mapping[tuple[str, Subject], Result], subjects: Sequence[Subject]
) -> list[str]:
    first, *peers = subjects
    head = [
        "`--only`",
        "what happens",
        "tries",
        "lost",
        "duplicated",
        "restarted",
        "leaked",
        "recovery: p50",
        "longest",
        "",
    ]
    align = ["---", "---", *["--:"] * 7, ":--"]
    if peers:
        head[2:2] = ["node"]
        align[2:2] = ["---"]
    lines = [f"| {' | '.join(head)} |", f"|{'|'.join(align)}|"]
    for fault in faults:
        shown = [f"`{fault.name}`", fault.what]
        for subject in (first, *peers):
            result = known.get((fault.name, subject))
            if result is None:
                continue
            cells = [*shown, *([_SHORT[subject]] if peers else []), *_cells(result)]
            lines.append(f"| {' | '.join(cells)} |")
            shown = ["", ""]
    return lines


_SHORT = {Subject.OURS: "pykubelet", Subject.CONTAINERD: "on containerd", Subject.GO: "Go kubelet"}


def _cells(result: Result) -> list[str]:
    counts = [*(result.count(what) for what in _COUNTS), result.leaked.total()]
    shown = [f"**{count}**" if count else "0" for count in counts]
    return [str(len(result.tries)), *shown, _seconds(result.p50), _seconds(result.worst), bar(result.worst)]


def bar(seconds: float | None) -> str:
    """Format the longest recovery as a bar."""
    if seconds is None:
        return ""
    eighths = round(min(seconds / _BAR_SECONDS, 1.0) * _BAR * 8)
    whole, rest = divmod(max(eighths, 1), 8)
    return "█" * whole + ("▏▎▍▌▋▊▉"[rest - 1] if rest else "")


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} s"


def _leak_table(results: Iterable[Result], subjects: Sequence[Subject]) -> list[str]:
    totals = {subject: Counter[str]() for subject in subjects}
    for result in results:
        totals[result.subject].update(result.leaked)
    lines = ["## Leaked, by kind", "", f"| node | {' | '.join(_PLURALS[kind] for kind in KINDS)} |"]
    lines.append(f"|---|{'--:|' * len(KINDS)}")
    for subject, found in totals.items():
        lines.append(f"| {subject} | {' | '.join(str(found[kind]) for kind in KINDS)} |")
    return lines


def _details(results: Iterable[Result]) -> list[str]:
    lines = []
    for result in results:
        found = [(what, each) for one in result.tries for what in _COUNTS for each in getattr(one, what)]
        found += [("leaked", each) for each in result.leaks]
        if found:
            lines.append(f"- {result.subject}, {result.fault}:")
            lines += [f"  - {what}: {_one_line(each)}" for what, each in found[:_DETAILS]]
            if len(found) > _DETAILS:
                lines.append(f"  - and {len(found) - _DETAILS} more")
    return ["## What was wrong", "", *lines] if lines else []


_DETAILS = 6
_DETAIL_LENGTH = 240


def _one_line(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _DETAIL_LENGTH else f"{flat[:_DETAIL_LENGTH]} …"


def line(result: Result) -> str:
    """Format a result for the terminal."""
    counts = "  ".join(f"{what} {result.count(what)}" for what in _COUNTS)
    mark = "FAILED" if result.failed else "ok"
    ended = f"  daemons ended {result.count('ended')}" if result.count("ended") else ""
    times = f"recovery {_seconds(result.p50)}, longest {_seconds(result.worst)}"
    took = sum(each.seconds for each in result.tries) / max(len(result.tries), 1)
    return f"{mark:6} {result.fault:18} {counts}  leaked {result.leaked.total()}  {times}  ({took:.1f} s a try){ended}"


def details(result: Result) -> list[str]:
    """Format the failures of a result for the terminal."""
    found = [f"{what}: {each}" for one in result.tries for what in (*_COUNTS, "ended") for each in getattr(one, what)]
    return [*found, *(f"leaked: {each}" for each in result.leaks)]


def write_json(path: Path, results: Sequence[Result], run: Run) -> None:
    """Write all results as JSON."""
    rows = [
        {
            "fault": result.fault,
            "subject": result.subject,
            "tries": [asdict(each) for each in result.tries],
            "leaked": dict(result.leaked),
            "leaks": result.leaks,
        }
        for result in results
    ]
    document = {"run": asdict(run), "results": rows}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1))


def read_json(path: Path) -> tuple[list[Result], float]:
    """Read the results of an earlier run, and its duration in minutes."""
    document, found = json.loads(path.read_text()), []
    for each in document["results"]:
        tries = [TryResult(**one) for one in each["tries"]]
        found.append(Result(each["fault"], Subject(each["subject"]), tries, Counter(each["leaked"]), each["leaks"]))
    return found, float(document["run"]["minutes"])


def write_markdown(path: Path, faults: Sequence[Fault], results: Sequence[Result], run: Run) -> None:
    """Write the document."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(markdown(faults, results, run))

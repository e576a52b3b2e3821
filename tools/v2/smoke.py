"""Run the short form of the tests in the emulated machine within a time limit, for the project's CI.

It fails only if tests fail in a machine that has booted. If there is no machine (a package cannot be installed, the
image cannot be built, the boot does not end in time, qemu ends), or if the host is too slow for the time limit, it
prints a line with the reason and the end of the console, and succeeds. Tests that have not ended by then fail if the
machine had nothing to do: they wait for something that does not happen.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.v2.project import ROOT

BOOTED = "booted"
"""File beside the image: how many seconds the machine has taken to boot, and the process of qemu."""
UNAVAILABLE = "unavailable"
"""File beside the image: why there is no machine."""
NO_MACHINE = 75
"""Exit status of a run of the tests without a machine (EX_TEMPFAIL)."""
_LIMIT = "PYKUBELET_V2_BOOT_SECONDS"
_SECONDS = 360.0
_PACKAGES_SECONDS = 120.0
_BOOT_SECONDS = 120.0
_END_SECONDS = 5.0
_LEAST_MEMORY = 3 << 30
"""Memory that the host must have, in bytes: the machine has 2 GiB."""
_TIMES_BOOT = 8.0
"""The short form must take at least so many times as long as its boot before it is judged to hang."""
_LOOK_SECONDS, _IDLE = 20.0, 0.5
"""Time for which the machine is watched before the end, and the share of it for which a waiting one is busy at most."""
_CONSOLE_LINES = 12
_NICE = -10
_NAME = "tests in an emulated machine (cgroup v2, systemd)"


def boot_limit() -> float:
    """Longest time that the machine may take to boot, in seconds."""
    return float(os.environ.get(_LIMIT, "1800"))


def limited() -> bool:
    """Whether the tests run within the time limit of this module."""
    return _LIMIT in os.environ


def main(cache: Path, tests: Sequence[str], seconds: float = _SECONDS) -> int:
    """Run; returns the exit status. ``tests`` is the command of the tests, ``cache`` the directory of the image."""
    began = time.monotonic()
    if reason := _lacking():
        return _skip(reason)
    cache.mkdir(parents=True, exist_ok=True)
    log = cache / "smoke.log"
    for name in (BOOTED, UNAVAILABLE, "console.log"):
        (cache / name).unlink(missing_ok=True)
    environment = {**os.environ, _LIMIT: f"{_BOOT_SECONDS:g}", "PYKUBELET_V2_CACHE": str(cache)}
    with log.open("wb") as output:
        limit = seconds - (time.monotonic() - began)
        status, busy = _limited(tests, limit, output.fileno(), environment, lambda: _used(cache))
    text, passed = log.read_text(errors="replace"), time.monotonic() - began
    verdict, reason = judge(Run(status, passed, *_boot_of(cache), busy, _content(cache / UNAVAILABLE)))
    if verdict == "skipped":
        return _skip(reason, _content(cache / "console.log"))
    print(text[-12000:] if verdict == "failed" else text[text.find("= in the emulated machine ") + 1 :])
    print(f"{_NAME}: {verdict}: {reason}")
    return 0 if verdict == "passed" else 1


@dataclass(frozen=True, slots=True)
class Run:
    """Facts about a run; times are in seconds."""

    status: int | None
    """Exit status of the tests; None if they did not end in time."""
    passed: float
    """Duration of the run."""
    boot: float
    """Duration of the boot; 0 if the machine has not booted."""
    since_boot: float
    busy: float
    """Share of the last time for which the machine had something to do, or waited for a processor of the host."""
    unavailable: str
    """The reason why there is no machine, if it is known."""


def judge(run: Run) -> tuple[str, str]:
    """The verdict (passed, failed, skipped) and its reason."""
    if run.status == 0:
        return "passed", f"{run.passed:.0f} s"
    if run.status == NO_MACHINE or run.unavailable:
        return "skipped", run.unavailable or "the machine is not available"
    if run.status is not None:
        return "failed", f"status {run.status}"
    if not run.boot:
        return "skipped", f"the machine had not booted after {run.passed:.0f} s"
    if run.since_boot < run.boot * _TIMES_BOOT or run.busy > _IDLE:
        return "skipped", f"not finished after {run.passed:.0f} s, and the machine was busy to the end: a slow host"
    return "failed", f"not finished after {run.passed:.0f} s, though the machine had nothing to do: something hangs"


def _boot_of(cache: Path) -> tuple[float, float]:
    """Duration of the boot, and time since its end; zeros without one."""
    file = cache / BOOTED
    return (float(_content(file).split()[0]), time.time() - file.stat().st_mtime) if file.exists() else (0.0, 0.0)


def _used(cache: Path) -> float:
    """Seconds for which the machine's processor has run or waited for one of the host; 0 without a machine."""
    words = _content(cache / BOOTED).split()
    with contextlib.suppress(OSError, IndexError, ValueError):
        tasks = Path(f"/proc/{words[1]}/task").iterdir()
        return max(sum(map(int, (task / "schedstat").read_text().split()[:2])) for task in tasks) / 1e9
    return 0.0


def _lacking() -> str:
    if os.geteuid() != 0:
        return "needs root"
    memory = dict(line.split()[:2] for line in Path("/proc/meminfo").read_text().splitlines())
    if int(memory["MemAvailable:"]) * 1024 < _LEAST_MEMORY:
        return f"less than {_LEAST_MEMORY >> 30} GiB of memory are available"
    packages = (ROOT / "tools/debian-packages-v2.txt").read_text().split()
    command = ["sh", "tools/install-packages.sh", *packages]
    status, _ = _limited(command, _PACKAGES_SECONDS, sys.stdout.fileno(), dict(os.environ))
    return "" if status == 0 else f"the Debian packages {', '.join(packages)} cannot be installed"


def _limited(
    command: Sequence[str],
    seconds: float,
    output: int,
    environment: dict[str, str],
    used: Callable[[], float] = lambda: 0.0,
) -> tuple[int | None, float]:
    """Run a command and end it, with its processes, after that time.

    Returns its status, or None; and how much ``used`` has grown per second at the end.
    """
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )
    _prefer(process.pid)
    began, before = time.monotonic(), 0.0
    look = min(_LOOK_SECONDS, seconds / 2)
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(max(seconds - look, 0.0)), 0.0
        began, before = time.monotonic(), used()
        return process.wait(look), 0.0
    except subprocess.TimeoutExpired:
        return None, (used() - before) / (time.monotonic() - began)
    finally:
        for end in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, end)
                process.wait(_END_SECONDS)


def _prefer(session: int) -> None:
    """Give a session more of the processors than others: only its time is limited by the clock.

    Without effect where the kernel does not group processes by session (sched_autogroup_enabled).
    """
    with contextlib.suppress(OSError):
        Path(f"/proc/{session}/autogroup").write_text(f"{_NICE}\n")


def _content(file: Path) -> str:
    return file.read_text(errors="replace").strip() if file.exists() else ""


def _skip(reason: str, console: str = "") -> int:
    lines = reason.splitlines() or [""]
    print(f"{_NAME}: skipped: {lines[0]}")
    for line in console.splitlines()[-_CONSOLE_LINES:]:
        print(f"  console: {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main(ROOT / "build" / "v2", [sys.executable, "-m", "pytest", "tests/v2", "-m", "smoke"]))

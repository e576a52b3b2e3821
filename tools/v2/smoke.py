"""Run the short form of the tests in the emulated machine within a time limit, for the project's CI.

It fails only if tests fail in a machine that has booted. If there is no machine (a package cannot be installed, the
image cannot be built, the boot does not end in time, qemu ends), or if the host is too slow for the time limit, it
prints a line with the reason and the end of the console, and succeeds.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tools.v2.project import ROOT

BOOTED = "booted"
"""File beside the image: how many seconds the machine has taken to boot."""
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
_SHARE = 12.0
"""How many times as long as its boot the short form takes at most: 6 to 8 times, if the host is not busy."""
_CONSOLE_LINES = 12
_NAME = "tests in an emulated machine (cgroup v2, systemd)"


def boot_limit() -> float:
    """How long the machine may take to boot, in seconds."""
    return float(os.environ.get(_LIMIT, "1800"))


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
        status = _limited(tests, seconds - (time.monotonic() - began), output.fileno(), environment)
    text = log.read_text(errors="replace")
    booted = float(_content(cache / BOOTED) or 0.0)
    verdict, reason = judge(status, booted, time.monotonic() - began, _content(cache / UNAVAILABLE))
    if verdict == "skipped":
        return _skip(reason, _content(cache / "console.log"))
    print("".join(text[-12000:] if verdict == "failed" else text[text.find("= in the emulated machine ") + 1 :]))
    print(f"{_NAME}: {verdict}: {reason}")
    return 0 if verdict == "passed" else 1


def judge(status: int | None, booted: float, passed: float, unavailable: str) -> tuple[str, str]:
    """The verdict (passed, failed, skipped) and its reason.

    ``status`` is that of the tests, None if they did not end in time; ``booted`` the seconds of the boot, 0 without
    one; ``passed`` the seconds that the run took; ``unavailable`` why there is no machine, if it is known.
    """
    if status == 0:
        return "passed", f"{passed:.0f} s"
    if status == NO_MACHINE or unavailable:
        return "skipped", unavailable or "the machine is not available"
    if status is not None:
        return "failed", f"status {status}"
    if not booted:
        return "skipped", f"the machine had not booted after {passed:.0f} s"
    if passed < booted * _SHARE:
        return "skipped", f"not finished after {passed:.0f} s: the host is slow, the boot took {booted:.0f} s"
    return "failed", f"not finished after {passed:.0f} s, though the boot took only {booted:.0f} s: something hangs"


def _lacking() -> str:
    if os.geteuid() != 0:
        return "needs root"
    memory = dict(line.split()[:2] for line in Path("/proc/meminfo").read_text().splitlines())
    if int(memory["MemAvailable:"]) * 1024 < _LEAST_MEMORY:
        return f"less than {_LEAST_MEMORY >> 30} GiB of memory are available"
    packages = (ROOT / "tools/debian-packages-v2.txt").read_text().split()
    command = ["sh", "tools/install-packages.sh", *packages]
    status = _limited(command, _PACKAGES_SECONDS, sys.stdout.fileno(), dict(os.environ))
    return "" if status == 0 else f"the Debian packages {', '.join(packages)} cannot be installed"


def _limited(command: Sequence[str], seconds: float, output: int, environment: dict[str, str]) -> int | None:
    """Run a command and end it, with its processes, after that time; its status, or None."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        for end in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, end)
                process.wait(_END_SECONDS)


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

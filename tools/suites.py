"""Run the suites of tests for `make check`, `make unit`, `make integration` and `make test`, several at a time.

The suites mostly wait (grace periods, probes, containers that start), so that two at a time take little more than
half as long. Limits of time in tests grow with their number. The output of each suite goes to a separate file, which is
printed when the suite ends. Suites that measure time run alone, at the end. A failure does not stop the other suites,
but makes the command fail. The final table lists what ran, and what was skipped and why.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from xml.etree import ElementTree

from tools.scratch import scratch

RUNTIMES = ("criserver", "containerd")
NAMES = ("lint", "unit", "v2", "integration", "cluster", "faults")
"""Names of the groups of suites."""
_REPORT_SECONDS = 60.0
_LOOK_SECONDS = 0.1
_PATIENCE = "PYKUBELET_TEST_PATIENCE"
_INTERRUPTED = 2
"""pytest's status after Ctrl-C."""
_FAULTS = "tests/faults/test_every_fault.py"
"""The short form of the fault benchmark, which takes minutes: a separate suite."""
_PYTEST = (sys.executable, "-m", "pytest", "--durations=15")


@dataclass(frozen=True, slots=True)
class Suite:
    """One suite: a command that runs tests or checks."""

    name: str
    command: tuple[str, ...]
    alone: bool = False
    """Whether no other suite may run at the same time."""

    @property
    def tests(self) -> bool:
        """Whether the command is pytest, whose report has the counts."""
        return "pytest" in self.command


@dataclass
class Outcome:
    """The result of a suite."""

    suite: Suite
    status: int | None = None
    """Exit status of its process; None if it was interrupted."""
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    """Numbers of passed, failed and skipped tests."""
    failed: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    """Numbers of skipped tests by reason."""


_NO_RULES = "--ignore-glob=tests/unit/test_*.py"
"""The tests of the rules of the code base: ``make lint`` runs them."""


def plan(names: Sequence[str], runtime: str) -> list[Suite]:
    """The suites of the named groups, the long ones first, which shortens the total time."""
    runtimes = [each for each in RUNTIMES if runtime in (each, "both")]
    suites = [
        ("lint", Suite("lint", ("make", "--no-print-directory", "lint", "OWNED="))),
        (
            "unit",
            Suite(
                "unit: all else",
                (*_PYTEST, "tests/unit", "tests/contract", "tests/fuzz", _NO_RULES, "--ignore=tests/unit/kubelet"),
            ),
        ),
        ("unit", Suite("unit: kubelet", (*_PYTEST, "tests/unit/kubelet"))),
        # Beside suites that wait: the emulated machine needs a processor.
        ("v2", Suite("emulated machine", ("make", "--no-print-directory", "smoke-v2", "OWNED="))),
        *(("integration", _real(f"integration: {each}", "each_runtime and not alone", each)) for each in runtimes),
        ("cluster", Suite("cluster", (*_PYTEST, f"--runtime={runtimes[0]}", "tests/cluster"))),
        ("faults", Suite("faults", (*_PYTEST, _FAULTS))),
        ("integration", _real("integration: all else", "not each_runtime and not alone", runtime)),
        ("integration", _real("timing", "alone", runtime, alone=True)),
    ]
    return [suite for name, suite in suites if name in names]


def _real(name: str, marked: str, runtime: str, *, alone: bool = False) -> Suite:
    directories = ("tests/integration", "tests/faults", f"--ignore={_FAULTS}")
    command = (*_PYTEST, "-m", marked, f"--runtime={runtime}", *directories)
    return Suite(name, command, alone)


class Run:
    """A suite whose process has been started."""

    def __init__(self, suite: Suite, directory: Path, temporary: Path, patience: str) -> None:
        """``temporary``: the directory for the temporary files of tests; short, since tests have sockets in it."""
        self.suite = suite
        self._begun = time.monotonic()
        self._log = directory / f"{suite.name}.log"
        self._report = directory / f"{suite.name}.xml"
        command = list(suite.command)
        if suite.tests:
            # Temporary directories of its own: pytest removes those of earlier runs, and fails if another suite does so
            # at the same time.
            command += [f"--junit-xml={self._report}", f"--basetemp={temporary}"]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Only this program forwards Ctrl-C: a second SIGINT would interrupt its clean-up.
                process_group=0,
                env={**os.environ, _PATIENCE: patience},
            )

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the suite's process group; programs with their own session do not get it."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)

    def progress(self) -> str:
        """The progress that pytest reports."""
        shares = re.findall(r"\[ *([0-9]+)%\]", self._log.read_text(errors="replace"))
        return f"{self.suite.name} {shares[-1]} %" if shares else self.suite.name

    def outcome(self) -> Outcome:
        """The result of the suite, whose process has ended."""
        found = Outcome(self.suite, self.process.returncode, time.monotonic() - self._begun)
        if self._report.exists():
            for case in ElementTree.parse(self._report).iter("testcase"):
                _count(case, found)
        elif self.suite.tests and found.status == 0:
            found.status = 1  # a test has ended the pytest process
        return found

    def show(self) -> None:
        """Print the whole output."""
        print(f"\n##### {self.suite.name}", flush=True)
        print(self._log.read_text(errors="replace"), end="", flush=True)


def _count(case: ElementTree.Element, found: Outcome) -> None:
    """Add one test to the outcome."""
    skip = case.find("skipped")
    if case.find("failure") is not None or case.find("error") is not None:
        found.counts["failed"] += 1
        found.failed.append(f"{case.get('classname')}::{case.get('name')}")
    elif skip is not None:
        found.counts["skipped"] += 1
        found.skipped[str(skip.get("message"))] += 1
    else:
        found.counts["passed"] += 1


class Stage:
    """Runs suites, at most ``lanes`` at a time."""

    def __init__(self, suites: Iterable[Suite], lanes: int, directory: Path) -> None:
        self._waiting = list(suites)
        self._lanes = lanes
        self._directory = directory
        # Suites that share the machine get longer time limits.
        self._patience = os.environ.get(_PATIENCE, str(lanes))
        self._running: list[Run] = []
        self._signals = 0
        self._begun = 0
        self.outcomes: list[Outcome] = []

    def play(self) -> None:
        """Run all suites, or stop when interrupted."""
        reported = time.monotonic()
        while self._waiting or self._running:
            self._begin()
            time.sleep(_LOOK_SECONDS)
            for run in [run for run in self._running if run.process.poll() is not None]:
                self._running.remove(run)
                self.outcomes.append(run.outcome())
                run.show()
            if self._running and time.monotonic() - reported > _REPORT_SECONDS:
                reported = time.monotonic()
                print("running:", "; ".join(run.progress() for run in self._running), flush=True)

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGINT: the first one lets the suites clean up, a second one kills them."""
        self._signals += 1
        for run in self._running:
            run.signal(signal.SIGINT if self._signals == 1 else signal.SIGKILL)
        self.outcomes += [Outcome(suite) for suite in self._waiting]
        self._waiting.clear()

    def _begin(self) -> None:
        while self._waiting and len(self._running) < self._lanes:
            alone = self._waiting[0].alone or any(run.suite.alone for run in self._running)
            if alone and self._running:
                return
            suite = self._waiting.pop(0)
            if suite.alone:
                os.sync()  # what the other suites have written would delay what is measured
            self._begun += 1
            temporary = self._directory / f"t{self._begun}"
            run = Run(suite, self._directory, temporary, "1" if suite.alone else self._patience)
            self._running.append(run)
            if self._signals:
                run.signal(signal.SIGINT)  # the signal arrived while this suite was being started
            print(f"began: {suite.name}", flush=True)


def table(outcomes: Sequence[Outcome], seconds: float) -> str:
    """Format the outcomes: what ran, what failed, what was skipped and why."""
    rows: list[tuple[str, ...]] = [("suite", "passed", "failed", "skipped", "min:s", "")]
    for each in outcomes:
        counted = each.suite.tests and each.status is not None
        counts = [str(each.counts[kind]) if counted else "" for kind in ("passed", "failed", "skipped")]
        result = {0: "ok", None: "did not run"}.get(each.status, "FAILED")
        if each.suite.tests and each.status == _INTERRUPTED:
            result = "broken off"
        took = "" if each.status is None else _minutes(each.seconds)
        rows.append((each.suite.name, *counts, took, result))
    total = sum((each.counts for each in outcomes), Counter[str]())
    rows.append(("all", *(str(total[kind]) for kind in ("passed", "failed", "skipped")), _minutes(seconds), ""))
    width = max(len(row[0]) for row in rows)
    lines = [f"{row[0]:{width}} {row[1]:>7} {row[2]:>7} {row[3]:>8} {row[4]:>7}  {row[5]}".rstrip() for row in rows]
    lines += [f"failed: {name}" for each in outcomes for name in each.failed]
    reasons = sum((each.skipped for each in outcomes), Counter[str]())
    lines += [f"skipped {count} × {reason}" for reason, count in reasons.most_common()]
    return "\n".join(lines)


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named groups; returns 0 if all suites passed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="+", choices=NAMES)
    parser.add_argument("--runtime", default="both", choices=[*RUNTIMES, "both"])
    parser.add_argument("--lanes", type=int, default=2, help="how many suites run at once")
    given = parser.parse_args(arguments)
    begun = time.monotonic()
    suites = plan(given.names, given.runtime)
    with scratch("suites-") as directory:
        stage = Stage(suites, given.lanes, directory)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, stage.interrupt)
        stage.play()
    outcomes = sorted(stage.outcomes, key=lambda outcome: suites.index(outcome.suite))
    print(f"\n{table(outcomes, time.monotonic() - begun)}", flush=True)
    return 0 if all(each.status == 0 for each in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())

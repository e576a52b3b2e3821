"""``make fuzz MINUTES=n``: repeat the fuzz tests until the time is over, each with a large budget.

Each test file has an equal share of the time. A round of a file is one run of pytest in which hypothesis tries
``--examples`` examples per test (passed in PYKUBELET_FUZZ_EXAMPLES), from a new seed; a round that still runs
when the share is over is stopped. A failure ends the share of its file, prints hypothesis's example and makes the
command fail; the other files continue.
"""

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

EXAMPLES = "PYKUBELET_FUZZ_EXAMPLES"
_ROOT = Path(__file__).resolve().parents[1]
_FUZZ = _ROOT / "tests" / "fuzz"
_STOP_SECONDS = 20.0
_FIRST = 20
"""Examples of the first round: it ends even in a short time on a busy machine."""
_SKIPPED = 5
"""pytest's status when no test was run."""


@dataclass(slots=True)
class Result:
    """The result of one file: rounds that passed, and the output of the round that failed."""

    file: str
    rounds: int = 0
    cut: bool = False
    """Whether the last round was stopped because the time was over."""
    seconds: float = 0.0
    failure: str = ""


def files(words: Sequence[str]) -> list[Path]:
    """The test files whose name contains one of the words; all files if there are no words."""
    found = sorted(_FUZZ.glob("test_*.py"))
    return [path for path in found if not words or any(word in path.name for word in words)]


def fuzz(path: Path, seconds: float, examples: int, lots: random.Random) -> Result:
    """Run rounds of one file until its time is over."""
    result = Result(path.name)
    begun = time.monotonic()
    while (left := seconds - (time.monotonic() - begun)) > 0:
        seed = lots.randrange(2**32)
        # Short rounds first: with few examples a defect that is easy to find shows soon.
        budget = min(examples, _FIRST * 2**result.rounds)
        status, output = _round(path, budget, seed, left)
        if status is None:
            result.cut = True
            break
        if status not in (0, _SKIPPED):
            result.failure = f"seed {seed}, {budget} examples\n{output}"
            break
        result.rounds += 1
    result.seconds = time.monotonic() - begun
    return result


def _round(path: Path, examples: int, seed: int, seconds: float) -> tuple[int | None, str]:
    """Run one round; returns pytest's status (None: stopped, the time was over) and the end of its output."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--timeout=0", str(path)]
    command.append(f"--hypothesis-seed={seed}")
    process = subprocess.Popen(
        command,
        cwd=_ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        process_group=0,
        env={**os.environ, EXAMPLES: str(examples)},
    )
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        # SIGINT lets fixtures clean up.
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.communicate(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        return None, ""
    return process.returncode, output.decode(errors="replace")[-8000:]


def table(results: Sequence[Result]) -> str:
    """Format the results as a table."""
    width = max((len(result.file) for result in results), default=4)
    rows = [f"{'file':<{width}}  rounds  seconds  outcome"]
    for result in results:
        rows.append(f"{result.file:<{width}}  {result.rounds:>6}  {result.seconds:>7.0f}  {_outcome(result)}")
    return re.sub(r" +$", "", "\n".join(rows), flags=re.MULTILINE)


def _outcome(result: Result) -> str:
    if result.failure:
        return "FAILED"
    if not result.rounds:
        return "no round has ended: not tested, give it more MINUTES"
    return "clean" + (", last round cut by the time" if result.cut else "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz the named files; returns 0 if no test failed."""
    parser = argparse.ArgumentParser(
        prog="make fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="for all files together")
    parser.add_argument("--examples", type=int, default=50_000, help="per test and round, at most")
    parser.add_argument("--seed", type=int, default=None, help="of the rounds' seeds")
    parser.add_argument("files", nargs="*", help="words in the names of the files; default: all")
    options = parser.parse_args(arguments)
    chosen = files(options.files)
    if not chosen:
        print("no fuzzing test has such a name", file=sys.stderr)
        return 2
    seed = random.randrange(2**32) if options.seed is None else options.seed
    lots = random.Random(seed)
    print(f"{len(chosen)} files, {options.minutes * 60 / len(chosen):.0f} s each, seed {seed}", flush=True)
    results = []
    for path in chosen:
        result = fuzz(path, options.minutes * 60 / len(chosen), options.examples, lots)
        results.append(result)
        print(f"{path.name}: {result.rounds} rounds, {_outcome(result)}", flush=True)
        if result.failure:
            print(result.failure, flush=True)
    print(table(results))
    return 1 if any(result.failure for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())

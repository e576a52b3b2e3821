"""``make mutants MODULES="…"``: change one place of a module at a time and check that a unit test fails.

A change (a mutant) for which no test fails has survived: either a test is missing, or the mutant is equivalent to the
original. Equivalent mutants are listed in ``tools/equivalent_mutants.txt`` with the reason.

The tests of a module are those that mirror its package and the packages around it in ``tests/unit``. They are collected
once; then each mutant runs in a fork of that process (``tools/mutant_runs.py``), in which the changed code
objects replace those of the module. Only the tests that execute the changed function run. No file of the project is
written.
"""

import argparse
import ast
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from tools.mutant_runs import Runs, UnusableError, with_tests
from tools.mutations import compiled, mutants_of

_ROOT = Path(__file__).resolve().parents[1]
_PRODUCT = _ROOT / "src" / "pykubelet"
_EQUIVALENT = Path(__file__).with_name("equivalent_mutants.txt")
GOAL = 0.85
"""Share of the mutants that must be killed."""
MODULES = (
    "apiclient/reflector.py",
    "base/backoff.py",
    "base/concurrency/guard.py",
    "base/spdy/connection.py",
    "cli/plan/quick_apply.py",
    "criserver/cni/garbage.py",
    "criserver/cni/network_status.py",
    "criserver/container/plan/lifecycle.py",
    "criserver/container/create.py",
    "criserver/container/exec.py",
    "criserver/container/log.py",
    "criserver/container/recover.py",
    "criserver/container/state/records.py",
    "criserver/container/state/table.py",
    "criserver/container/remove.py",
    "criserver/container/start.py",
    "criserver/container/stop.py",
    "criserver/sandbox/plan/lifecycle.py",
    "criserver/sandbox/plan/requests.py",
    "criserver/sandbox/attachments.py",
    "criserver/sandbox/recover.py",
    "criserver/sandbox/state/records.py",
    "criserver/sandbox/remove.py",
    "criserver/sandbox/run.py",
    "criserver/sandbox/stop.py",
    "criserver/sandbox/state/table.py",
    "criserver/sandbox/update.py",
    "criserver/sandbox/view.py",
    "criserver/sandbox/watch.py",
    "criserver/record_store/copies.py",
    "criserver/record_store/database.py",
    "criserver/record_store/record_table.py",
    "criserver/record_store/store.py",
    "criserver/record_store/writer.py",
    "criserver/unpack/extract.py",
    "kubelet/actuate/cgroups/plan/memory_qos.py",
    "kubelet/actuate/images/plan/keyring.py",
    "kubelet/actuate/images/plan/provider_protocol.py",
    "kubelet/actuate/images/plan/pull_records.py",
    "kubelet/actuate/podruntime/plan/crashloop.py",
    "kubelet/actuate/podruntime/plan/actions.py",
    "kubelet/actuate/podruntime/plan/init_containers.py",
    "kubelet/actuate/podruntime/plan/restart.py",
    "kubelet/actuate/podruntime/plan/stop_order.py",
    "kubelet/actuate/volumes/kinds/atomic_writer.py",
    "kubelet/control/workers/plan/lifecycle.py",
    "kubelet/control/workers/worker_set.py",
    "kubelet/control/workers/steps.py",
    "kubelet/control/workers/timers.py",
    "kubelet/desired/admission/plan/rules.py",
    "kubelet/desired/admission/plan/preemption.py",
    "kubelet/observe/pleg/plan/diff.py",
    "kubelet/observe/eviction/plan/thresholds.py",
    "kubelet/observe/probes/plan/probe_rules.py",
    "kubelet/report/status/plan/conditions.py",
    "kubelet/report/status/plan/phase.py",
    "kubelet/report/status/plan/pod_status.py",
)
"""The modules whose defects cost most: those that decide about starts and stops, and those that keep records."""
_FURTHER: Final[dict[str, tuple[str, ...]]] = {
    "criserver/container/remove.py": ("criserver/container/processes",),
    "criserver/container/start.py": ("criserver/container/processes", "criserver/container/checkpoint"),
    "criserver/container/stop.py": ("criserver/container/processes",),
    "criserver/unpack/extract.py": ("criserver/storage",),
}
"""Directories with tests of a module that do not mirror its package.

The storage runs the program that unpacks; a start takes over a pre-launch, which a stop and a removal undo; and a
start restores a container from a checkpoint.
"""


@dataclass(slots=True)
class Score:
    """The results of a module's mutants."""

    module: str
    killed: int = 0
    survived: list[str] = field(default_factory=list)
    equivalent: int = 0
    seconds: float = 0.0
    broken: str = ""
    """The reason why no mutant could be tried; empty otherwise."""

    @property
    def share(self) -> float:
        """Share of killed mutants among those that are not equivalent."""
        tried = self.killed + len(self.survived)
        return self.killed / tried if tried else 1.0


def tests_of(module: str) -> list[str]:
    """The tests that mirror the module's package and the packages around it, the tests named after the module first.

    A small package shares the tests of the package around it: those of ``container/state`` are in ``container``, too.
    """
    top = _ROOT / "tests" / "unit"
    found: list[Path] = []
    place = Path(module).parent
    while place.parts and (len(place.parts) > 1 or not found):
        found += sorted((top / place).glob("test_*.py"))
        place = place.parent
    for further in _FURTHER.get(module, ()):
        found += sorted((top / further).glob("test_*.py"))
    stem = Path(module).stem
    found.sort(key=lambda path: stem not in path.stem)
    return [str(path) for path in found]


def equivalents() -> dict[str, str]:
    """The equivalent mutants: reasons by name."""
    if not _EQUIVALENT.exists():
        return {}
    rows = (line.partition(" # ") for line in _EQUIVALENT.read_text().splitlines() if line and line[0] != "#")
    return {name.strip(): reason.strip() for name, _, reason in rows}


def score(module: str, most: int, seed: int) -> Score:
    """Try at most ``most`` mutants of a module, chosen by the seed."""
    result = Score(module)
    begun = time.monotonic()
    file = _PRODUCT / module
    source = file.read_text()
    chosen = list(mutants_of(module, source))
    if len(chosen) > most:
        chosen = sorted(random.Random(f"{seed} {module}").sample(chosen, most), key=lambda mutant: mutant.line)
    paths = tests_of(module)
    if not paths:
        result.broken = "no tests mirror its package"
        return result
    known = equivalents()
    original = compile(ast.parse(source), str(file), "exec")

    def judge(runs: Runs) -> None:
        for mutant in chosen:
            changed = compiled(mutant, source)
            if mutant.name in known:
                result.equivalent += 1
            elif not (tests := runs.choose(original, changed)):
                result.survived.append(f"{mutant.name}  (no test executes it)")
            elif runs.pass_with(changed, tests):
                result.survived.append(mutant.name)
            else:
                result.killed += 1

    os.environ["PYKUBELET_DERANDOMIZE"] = "1"  # otherwise a mutant could survive by chance
    try:
        with_tests(paths, str(file), judge)
    except UnusableError as error:
        result.broken = str(error)
    result.seconds = time.monotonic() - begun
    return result


def table(scores: Sequence[Score]) -> str:
    """Format the scores: a row per module, and the total."""
    width = max(len(each.module) for each in scores)
    rows = [f"{'module':<{width}}  killed  survived  equivalent  share  seconds"]
    for each in scores:
        rest = each.broken or (
            f"{each.killed:>6}  {len(each.survived):>8}  {each.equivalent:>10}"
            f"  {each.share:>5.0%}  {each.seconds:>7.0f}"
        )
        rows.append(f"{each.module:<{width}}  {rest}")
    killed, survived = sum(each.killed for each in scores), sum(len(each.survived) for each in scores)
    rows.append(f"{killed} of {killed + survived} mutants killed: {killed / max(1, killed + survived):.0%}")
    return "\n".join(rows)


def run(modules: Sequence[str], most: int, seed: int, lanes: int) -> list[Score]:
    """Score the modules and print results as they come. Each runs in an interpreter that imports only its tests."""

    def one(module: str) -> Score:
        command = [sys.executable, "-m", "tools.mutants", f"--most={most}", f"--seed={seed}", "--one", module]
        done = subprocess.run(command, cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
        if done.returncode != 0:
            return Score(module, broken=f"its interpreter ended with status {done.returncode}")
        return Score(**json.loads(done.stdout))

    scores = []
    with ThreadPoolExecutor(lanes) as pool:
        for future in as_completed([pool.submit(one, module) for module in modules]):
            scores.append(found := future.result())
            survived = (f"  survived: {name}" for name in found.survived)
            print(table([found]).splitlines()[1], *survived, sep="\n", flush=True)
    return sorted(scores, key=lambda each: each.module)


def main(arguments: Sequence[str] | None = None) -> int:
    """Score the named modules; returns 0 if in each at least ``GOAL`` of the mutants were killed."""
    parser = argparse.ArgumentParser(
        prog="make mutants", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--most", type=int, default=60, help="mutants per module")
    parser.add_argument("--lanes", type=int, default=2, help="modules at a time")
    parser.add_argument("--seed", type=int, default=0, help="by which they are chosen")
    parser.add_argument("modules", nargs="*", help="paths below src/pykubelet, or parts of them; default: the list")
    parser.add_argument("--one", action="store_true", help="print the score of one module as JSON, in this interpreter")
    options = parser.parse_args(arguments)
    if options.one:
        output = os.dup(1)
        os.write(output, json.dumps(asdict(score(options.modules[0], options.most, options.seed))).encode())
        return 0
    modules = [m for m in MODULES if not options.modules or any(word in m for word in options.modules)]
    modules += [m for m in options.modules if m not in modules and (_PRODUCT / m).is_file()]
    if not modules:
        print("no module has such a name", file=sys.stderr)
        return 2
    scores = run(modules, options.most, options.seed, options.lanes)
    print(table(scores))
    below = [each.module for each in scores if each.broken or each.share < GOAL]
    if below:
        print(f"below {GOAL:.0%}: {' '.join(below)}")
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())

"""``make quick``: lint, and the unit tests that concern the change, within a minute.

The change is what differs from the branch point (``main``, ``origin/main``) or, on the main branch, from the last
commit, with files that git does not track yet. Of the unit tests run, in this order: changed ones, those that mirror a
changed module's package, and those that import a changed module; what does not fit into the time is listed.
"""

import re
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from tools.mutants import tests_of

_ROOT = Path(__file__).resolve().parents[1]
_BIN = Path(sys.executable).parent
_PRODUCT = "src/pykubelet/"
_AT_ONCE = 6
"""Test files of one run of pytest after the first, which has the closest file alone: most of a run is its start."""


def changed_files() -> list[str]:
    """The changed Python files, relative to the project's root. Files that were removed are not among them."""
    base = "HEAD"
    for name in ("origin/main", "main"):
        found = _git("merge-base", "HEAD", name)
        if found and found[0] != _git("rev-parse", "HEAD")[0]:
            base = found[0]
            break
    names = {*_git("diff", "--name-only", base), *_git("ls-files", "--others", "--exclude-standard")}
    if not names:
        names = {*_git("diff", "--name-only", "HEAD~1")}
    return sorted(name for name in names if name.endswith(".py") and (_ROOT / name).is_file())


def tests_for(changed: Iterable[str]) -> list[str]:
    """The unit tests that concern these files, the closest first."""
    own = [name for name in changed if re.match(r"tests/unit/.*/?test_\w+\.py$", name)]
    modules = [name.removeprefix(_PRODUCT) for name in changed if name.startswith(_PRODUCT)]
    mirrors = [str(Path(test).relative_to(_ROOT)) for module in modules for test in tests_of(module)[:8]]
    return list(dict.fromkeys([*own, *mirrors, *_importers(modules)]))


def _importers(modules: Sequence[str]) -> list[str]:
    if not modules:
        return []
    names = [re.escape("pykubelet." + module.removesuffix(".py").replace("/", ".")) for module in modules]
    imported = re.compile(rf"(?:{'|'.join(names)})\b")
    tests = sorted((_ROOT / "tests" / "unit").rglob("test_*.py"))
    return [str(path.relative_to(_ROOT)) for path in tests if imported.search(path.read_text())]


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


class _Run:
    """The steps of one call. A step that does not end in time makes the call incomplete."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self.failed = False
        self.unfinished: list[str] = []

    @property
    def left(self) -> float:
        """Remaining seconds."""
        return self._end - time.monotonic()

    def step(self, name: str, command: Sequence[str]) -> None:
        """Run a command to its end, or to that of the time."""
        self.join(name, self.begin(command))

    def begin(self, command: Sequence[str]) -> subprocess.Popen[str]:
        """Start a command that goes on beside others; `join` waits for it."""
        return subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def join(self, name: str, process: subprocess.Popen[str]) -> None:
        """Wait for the end of a command, and print its result."""
        begun = time.monotonic()
        try:
            said, _ = process.communicate(timeout=max(1.0, self.left))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.unfinished.append(name)
            said, result = "", "not finished"
        else:
            result = "FAILED" if process.returncode else "ok"
            self.failed |= process.returncode != 0
        click.echo(f"{name:<40} {time.monotonic() - begun:6.1f} s  {result}")
        if result == "FAILED":
            click.echo(said.rstrip())


@click.command()
@click.option("--seconds", default=57.0, show_default=True, help="Time for lint and tests together.")
def main(seconds: float) -> None:
    """Exit status: 0 all that ran has passed; 1 something failed. The last line tells what did not run."""
    changed = changed_files()
    if not changed:
        click.echo("no Python file has changed")
        return
    tests = tests_for(changed)
    click.echo(f"{len(changed)} changed files, {len(tests)} test files")
    run = _Run(seconds)
    mypy = run.begin([str(_BIN / "mypy"), *changed])
    contracts = run.begin([str(_BIN / "lint-imports")])
    run.step("ruff check", [str(_BIN / "ruff"), "check", *changed])
    run.step("ruff format", [str(_BIN / "ruff"), "format", "--check", "--quiet", *changed])
    run.step("words", [sys.executable, "tools/words.py", *changed])
    late = deque(tests)
    number = 1
    while late and run.left >= 1:
        now = [late.popleft() for _ in range(min(number, len(late)))]
        number = _AT_ONCE
        name = " ".join(test.removeprefix("tests/unit/") for test in now)
        run.step(name, [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", *now])
    run.join("contracts of imports", contracts)
    run.join("mypy", mypy)
    if unfinished := [*run.unfinished, *late]:
        click.echo(f"incomplete, `make check` runs all: {', '.join(unfinished)}")
    sys.exit(1 if run.failed else 0)


if __name__ == "__main__":
    main()

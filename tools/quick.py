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


def _step(name: str, command: Sequence[str], seconds: float | None = None) -> bool:
    begun = time.monotonic()
    try:
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        click.echo(f"{name:<40} {time.monotonic() - begun:6.1f} s  not finished")
        return True
    well = done.returncode == 0
    click.echo(f"{name:<40} {time.monotonic() - begun:6.1f} s  {'ok' if well else 'FAILED'}")
    if not well:
        click.echo((done.stdout + done.stderr).rstrip())
    return well


@click.command()
@click.option("--seconds", default=57.0, show_default=True, help="Time for lint and tests together.")
def main(seconds: float) -> None:
    """Exit status: 0 nothing failed; 1 something did."""
    end = time.monotonic() + seconds
    changed = changed_files()
    if not changed:
        click.echo("no Python file has changed")
        return
    tests = tests_for(changed)
    click.echo(f"{len(changed)} changed files, {len(tests)} test files")
    mypy = subprocess.Popen(
        [_BIN / "mypy", *changed], cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    well = _step("ruff check", [str(_BIN / "ruff"), "check", *changed])
    well &= _step("ruff format", [str(_BIN / "ruff"), "format", "--check", "--quiet", *changed])
    well &= _step("words", [sys.executable, "tools/words.py", *changed])
    late = deque(tests)
    number = 1
    while late and (left := end - time.monotonic()) >= 1:
        now = [late.popleft() for _ in range(min(number, len(late)))]
        number = _AT_ONCE
        pytest = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", *now]
        well &= _step(" ".join(test.removeprefix("tests/unit/") for test in now), pytest, left)
    try:
        said, _ = mypy.communicate(timeout=max(1.0, end - time.monotonic()))
        well &= mypy.returncode == 0
        click.echo("mypy ok" if mypy.returncode == 0 else said.rstrip())
    except subprocess.TimeoutExpired:
        mypy.kill()
        mypy.communicate()
        click.echo("mypy did not finish in time: `make lint` runs it")
    if late:
        click.echo(f"no time was left for {len(late)} test files: " + " ".join(late))
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()

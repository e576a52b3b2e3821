"""``pykubelet check``: validate manifests without running them."""

from pathlib import Path

import click

from pykubelet.kubelet.desired.manifest import ObjectKey
from pykubelet.kubelet.desired.manifest_file import CheckResult, check_file
from pykubelet.kubelet.desired.sources.disk import is_manifest_name


@click.command(name="check")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE|DIRECTORY...")
@click.option("-q", "--quiet", is_flag=True, help="Print problems only.")
@click.pass_context
def command(ctx: click.Context, paths: tuple[Path, ...], quiet: bool) -> None:
    """Check manifests as the agent would read them; exits with 1 if there is a problem."""
    results = [check_file(file) for path in paths for file in _files(path)]
    problems = 0
    for result in results:
        problems += len(result.problems)
        for problem in result.problems:
            click.echo(str(problem))
        if not quiet and result.ok:
            click.echo(f"{result.path}: ok, {_contents(result)}")
    for path, key, first in _duplicates(results):
        problems += 1
        click.echo(f"{path}: {key}: also defined in {first}; rename one of them: the agent uses the first only")
    if not quiet:
        click.echo(f"{len(results)} file(s) checked, {problems} problem(s)", err=bool(problems))
    ctx.exit(1 if problems else 0)


def _files(path: Path) -> list[Path]:
    """Return the file itself, or the manifests that the agent would read from a directory."""
    if not path.is_dir():
        return [path]
    return sorted(entry for entry in path.iterdir() if is_manifest_name(entry.name) and not entry.is_dir())


def _contents(result: CheckResult) -> str:
    return ", ".join(str(item.key) for item in result.manifest.objects)


def _duplicates(results: list[CheckResult]) -> list[tuple[str, ObjectKey, str]]:
    """Return objects defined in more than one file: (file, object, the file that defines it first)."""
    seen: dict[ObjectKey, str] = {}
    found = []
    for result in results:
        for item in result.manifest.objects:
            first = seen.setdefault(item.key, result.path)
            if first != result.path:
                found.append((result.path, item.key, first))
    return found

"""``pykubelet check``: validate manifests without running them."""

from collections.abc import Sequence
from pathlib import Path

import click

from pykubelet.cli.check_sources import machine_capacity, sources_of
from pykubelet.kubelet.desired.check import CheckFinding, CheckSource, Severity, check


@click.command(name="check")
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE|DIRECTORY|-...",
)
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings too.")
@click.option("-q", "--quiet", is_flag=True, help="Print findings only.")
@click.pass_context
def command(ctx: click.Context, paths: tuple[Path, ...], strict: bool, quiet: bool) -> None:
    """Check manifests as the agent would read them; exits with 1 if there is an error."""
    sources = sources_of(paths)
    findings = check(sources, capacity=machine_capacity())
    show(sources, findings, quiet=quiet)
    failed = any(strict or each.severity is Severity.ERROR for each in findings)
    ctx.exit(1 if failed else 0)


def show(sources: Sequence[CheckSource], findings: Sequence[CheckFinding], *, quiet: bool) -> None:
    """Print the findings as lines; without ``quiet`` also the files without findings, and the numbers."""
    origins = {each.problem.origin for each in findings}
    for finding in findings:
        click.echo(str(finding))
    if quiet:
        return
    for source in sources:
        if source.manifest.origin not in origins:
            contents = ", ".join(str(item.key) for item in source.manifest.objects)
            click.echo(f"{source.manifest.origin}: ok, {contents}")
    errors = sum(each.severity is Severity.ERROR for each in findings)
    counted = f"{len(sources)} file(s) checked, {errors} error(s), {len(findings) - errors} warning(s)"
    click.echo(counted, err=bool(findings))

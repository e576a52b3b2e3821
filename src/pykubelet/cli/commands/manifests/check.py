"""``pykubelet check``: validate manifests without running them."""

from pathlib import Path

import click


@click.command(name="check")
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE|DIRECTORY|-...",
)
@click.option(
    "--node/--no-node", default=None, help="Check against the node of the running agent (default: if one responds)."
)
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings too.")
@click.option("-o", "--output", type=click.Choice(["json", "sarif"]), default=None, help="Output format.")
@click.option("-q", "--quiet", is_flag=True, help="Print findings only.")
@click.pass_context
def command(
    ctx: click.Context, paths: tuple[Path, ...], node: bool | None, strict: bool, output: str | None, quiet: bool
) -> None:
    """Check manifests as the agent would read them; exits with 1 if there is an error.

    Files are checked one by one, against each other, and against the node of the running agent: its labels, resources
    and runtime classes, and the ConfigMaps, Secrets and host ports of its manifests. Without an agent, against the size
    of this machine. "-" reads the standard input.
    """
    from pykubelet.cli.changes.check_manifests import check_manifests  # heavy

    ctx.exit(check_manifests(ctx.obj, paths, node=node, strict=strict, output=output, quiet=quiet))

"""``pykubelet check``: validate manifests without running them."""

import json
from pathlib import Path

import click

from pykubelet.base.errors import PykubeletError, Transient
from pykubelet.cli.arguments.lookup import api_of
from pykubelet.cli.changes.check_sources import known_manifests, machine_capacity, node_of, sources_of
from pykubelet.cli.client.local_api import NoPermission
from pykubelet.cli.output.check_output import Checked, document, lines, sarif, summary
from pykubelet.cli.terminal import echo
from pykubelet.kubelet.desired.check import Severity, check
from pykubelet.kubelet.types.reports.node_view import NodeView

_SKIPPED = (
    "node selectors",
    "free resources",
    "extended resources",
    "runtime classes",
    "objects and ports of the node",
)
"""What cannot be checked without an agent."""


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
    view, told = _node(ctx.obj, node)
    sources = sources_of(paths)
    findings = check(sources, view, capacity=machine_capacity())
    if view is not None and any(not place.line for each in findings for place in each.related):
        findings = check(sources, view, known=known_manifests(view))
    checked = Checked(
        sources=sources, findings=findings, node=view.name if view else "", skipped=() if view else _SKIPPED
    )
    if output is not None:
        echo(json.dumps(document(checked) if output == "json" else sarif(checked), indent=2))
    else:
        for line in lines(checked, quiet=quiet):
            echo(line)
    if not quiet:
        echo(told, err=True)
        echo(summary(checked), err=output is not None or bool(findings))
    failed = checked.count(Severity.ERROR) or (strict and findings)
    ctx.exit(1 if failed else 0)


def _node(socket: object, wanted: bool | None) -> tuple[NodeView | None, str]:
    """Return the node of the running agent, and a sentence that says what is checked against.

    Raises PykubeletError if the node is wanted and no agent responds.
    """
    skipped = f"not checked: {', '.join(_SKIPPED)}"
    if wanted is False:
        return None, f"checked against the size of this machine, {skipped}"
    api = api_of(socket)
    try:
        view = node_of(api)
    except PykubeletError as error:
        if wanted:
            raise
        cause = str(error).partition("; ")[0] if isinstance(error, Transient | NoPermission) else str(error)
        return None, f"{cause}: checked against the size of this machine, {skipped}"
    return view, f"checked against node {view.name!r} of the agent at {api.path}"

"""Validates manifests and prints what was found."""

import json
from collections.abc import Sequence
from pathlib import Path

from pykubelet.base.errors import PykubeletError, Transient
from pykubelet.cli.arguments.lookup import api_of
from pykubelet.cli.changes.check_sources import known_manifests, machine_capacity, node_of, sources_of
from pykubelet.cli.client.local_api import NoPermission
from pykubelet.cli.output.check_output import CheckResult, document, lines, sarif, summary
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
"""Checks that need an agent."""


def check_manifests(
    socket: object, paths: Sequence[Path], *, node: bool | None, strict: bool, output: str | None, quiet: bool
) -> int:
    """Check the manifests and print the findings; return the exit status.

    ``node``: against that of the agent at ``socket``, False: not, None: if one responds. ``output`` is json, sarif, or
    None for lines. PykubeletError: a path cannot be read, or the agent does not respond though its node is asked for.
    """
    view, notice = _node(socket, node)
    sources = sources_of(paths)
    findings = check(sources, view, capacity=machine_capacity())
    if view is not None and any(not place.line for each in findings for place in each.related):
        findings = check(sources, view, known=known_manifests(view))
    checked = CheckResult(
        sources=sources, findings=findings, node=view.name if view else "", skipped=() if view else _SKIPPED
    )
    if output is not None:
        echo(json.dumps(document(checked) if output == "json" else sarif(checked), indent=2))
    else:
        for line in lines(checked, quiet=quiet):
            echo(line)
    if not quiet:
        echo(notice, err=True)
        echo(summary(checked), err=output is not None or bool(findings))
    failed = checked.count(Severity.ERROR) or (strict and findings)
    return 1 if failed else 0


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

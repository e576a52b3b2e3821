"""Shell completion of pod names."""

from pathlib import Path

import click
from click.shell_completion import CompletionItem


def pod_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the agent's pods; empty if the agent does not respond, since completion cannot show errors."""
    from pykubelet.base.errors import PykubeletError
    from pykubelet.cli.local_api import LocalApi
    from pykubelet.cli.lookup import list_pods

    socket = ctx.find_root().params.get("socket")
    if not isinstance(socket, Path):
        return []
    try:
        pods = list_pods(LocalApi(socket), ctx.params.get("namespace") or "")
    except PykubeletError:
        return []
    return [
        CompletionItem(pod.metadata.name, help=pod.metadata.namespace)
        for pod in pods
        if pod.metadata.name.startswith(incomplete)
    ]

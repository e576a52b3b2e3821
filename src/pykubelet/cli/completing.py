"""What the shell offers while a command is typed."""

from pathlib import Path

import click
from click.shell_completion import CompletionItem


def pod_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The agent's pods; nothing when it does not answer, because a completion has no place for an error."""
    from pykubelet.base.errors import PykubeletError
    from pykubelet.cli.local_api import LocalApi
    from pykubelet.cli.select import list_pods

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

"""``pykubelet retry``: skip the present back-off of pods."""

import click

from pykubelet.base.errors import NotFound
from pykubelet.cli.arguments.lookup import api_of
from pykubelet.cli.arguments.pod_args import chosen_pods, selection_options
from pykubelet.cli.arguments.pod_completion import pod_names
from pykubelet.cli.terminal import echo


@click.command(name="retry")
@click.argument("words", nargs=-1, metavar="POD...", shell_complete=pod_names)
@selection_options
@click.pass_obj
def command(socket: object, words: tuple[str, ...], namespace: str, selector: str, everything: bool) -> None:
    """Try again now what a POD waits for: the restart of a crashed container, or the pull of an image.

    Only the present back-off is skipped; after another failure, the next one is as long as it would have been.

    Example: pykubelet retry web
    """
    api = api_of(socket)
    pods = chosen_pods(api, words, namespace, selector=selector, everything=everything)
    if not pods:
        raise NotFound("no pods match the selection")
    for pod in pods:
        api.post(f"/pykubelet/v1/retry/{pod.namespace}/{pod.name}")
        echo(f"pod/{pod.name} retried")

"""``pykubelet describe``: show one pod in detail, with its events."""

import click

from pykubelet.cli.arguments.kinds import BY_NAME
from pykubelet.cli.arguments.lookup import api_of, find_pod
from pykubelet.cli.arguments.pod_args import one_pod
from pykubelet.cli.arguments.pod_completion import namespaces, pod_names
from pykubelet.cli.terminal import echo


@click.command(name="describe")
@click.argument("words", nargs=-1, required=True, metavar="[pod] NAME", shell_complete=pod_names)
@click.option("-n", "--namespace", default="", shell_complete=namespaces, help="The pod's namespace.")
@click.pass_obj
def command(socket: object, words: tuple[str, ...], namespace: str) -> None:
    """Show a pod in detail, with its events."""
    other = BY_NAME.get(words[0].partition("/")[0])
    if other is not None and other.plural != "pods":
        raise click.UsageError(f"describe shows pods; for {other.plural}: pykubelet get {other.plural} -o yaml")
    api = api_of(socket)
    found = find_pod(api, one_pod(words), namespace)
    from pykubelet.cli.output.pod_description import describe_pod  # heavy

    echo(describe_pod(api, found))

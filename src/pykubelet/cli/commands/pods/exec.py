"""``pykubelet exec``: run a command in a container."""

import sys
from urllib.parse import urlencode

import click

from pykubelet.cli.arguments.lookup import api_of, find_container, find_pod
from pykubelet.cli.arguments.pod_completion import container_names, namespaces, pod_names


@click.command(name="exec", context_settings={"ignore_unknown_options": True})
@click.argument("pod", shell_complete=pod_names)
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[--] COMMAND [ARG]...")
@click.option(
    "-c", "--container", default=None, shell_complete=container_names, help="The container (default: the first)."
)
@click.option("-n", "--namespace", default="", shell_complete=namespaces, help="The pod's namespace.")
@click.option("-i", "--stdin", is_flag=True, help="Forward standard input.")
@click.option("-t", "--tty", "terminal", is_flag=True, help="Allocate a terminal for the command.")
@click.pass_context
def command(
    ctx: click.Context,
    pod: str,
    argv: tuple[str, ...],
    container: str | None,
    namespace: str,
    stdin: bool,
    terminal: bool,
) -> None:
    """Run COMMAND in a container of POD; exits with the command's status."""
    if not argv:
        raise click.UsageError("no command given; for example: pykubelet exec POD -- ls /")
    from pykubelet.cli.client.streams import Session, run_session

    api = api_of(ctx.obj)
    found = find_pod(api, pod, namespace)
    query = [("container", find_container(found, container)), ("stdout", "true")]
    query += [("command", word) for word in argv]
    query += [(key, "true") for key, given in (("stdin", stdin), ("tty", terminal), ("stderr", not terminal)) if given]
    path = f"/api/v1/namespaces/{found.namespace}/pods/{found.name}/exec?{urlencode(query)}"
    ctx.exit(run_session(Session(api.path, path, stdin, terminal and sys.stdin.isatty())))

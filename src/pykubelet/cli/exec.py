"""``pykubelet exec``: a command in a container."""

import sys
from urllib.parse import urlencode

import click

from pykubelet.cli.completing import pod_names
from pykubelet.cli.select import api_of, find_container, find_pod


@click.command(name="exec", context_settings={"ignore_unknown_options": True})
@click.argument("pod", shell_complete=pod_names)
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[--] COMMAND [ARG]...")
@click.option("-c", "--container", default=None, help="The container (default: the first).")
@click.option("-n", "--namespace", default="", help="The pod's namespace.")
@click.option("-i", "--stdin", is_flag=True, help="Pass standard input on.")
@click.option("-t", "--tty", "terminal", is_flag=True, help="Give the command a terminal.")
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
        raise click.UsageError("a command is needed, for example: pykubelet exec POD -- ls /")
    from pykubelet.cli.streams import Session, converse

    api = api_of(ctx.obj)
    found = find_pod(api, pod, namespace)
    query = [("container", find_container(found, container)), ("stdout", "true")]
    query += [("command", word) for word in argv]
    query += [(key, "true") for key, given in (("stdin", stdin), ("tty", terminal), ("stderr", not terminal)) if given]
    path = f"/api/v1/namespaces/{found.metadata.namespace}/pods/{found.metadata.name}/exec?{urlencode(query)}"
    ctx.exit(converse(Session(api.path, path, stdin, terminal and sys.stdin.isatty())))

"""``pykubelet attach``: attach to a running container's streams."""

import sys
from urllib.parse import urlencode

import click

from pykubelet.cli.arguments.lookup import api_of, find_container, find_pod
from pykubelet.cli.arguments.pod_completion import container_names, namespaces, pod_names
from pykubelet.cli.terminal import echo


@click.command(name="attach")
@click.argument("pod", shell_complete=pod_names)
@click.option(
    "-c", "--container", default=None, shell_complete=container_names, help="The container (default: the first)."
)
@click.option("-n", "--namespace", default="", shell_complete=namespaces, help="The pod's namespace.")
@click.option("-i", "--stdin", is_flag=True, help="Forward standard input; the container must have `stdin: true`.")
@click.option("-t", "--tty", "terminal", is_flag=True, help="Use the container's terminal (`tty: true`).")
@click.pass_context
def command(ctx: click.Context, pod: str, container: str | None, namespace: str, stdin: bool, terminal: bool) -> None:
    """Show the output of a container of POD from now on, until it ends or Ctrl-C."""
    from pykubelet.cli.client.streams import Session, run_session

    api = api_of(ctx.obj)
    found = find_pod(api, pod, namespace)
    name = find_container(found, container)
    spec = next(spec for spec in found.containers if spec["name"] == name)
    has_terminal = bool(spec.get("tty"))
    if stdin and not spec.get("stdin"):
        raise click.UsageError(f"container {name} has no standard input; set `stdin: true` in its manifest")
    if terminal and not has_terminal:
        echo(f"container {name} has no terminal (`tty: true`); attaching without one", err=True)
        terminal = False
    if terminal and stdin:
        echo("If you don't see a prompt, press Enter.", err=True)
    # With a terminal, the container has one output stream for both stdout and stderr.
    given = {"stdin": stdin, "stdout": True, "stderr": not has_terminal, "tty": has_terminal}
    query = [("container", name), *((key, "true") for key, value in given.items() if value)]
    path = f"/api/v1/namespaces/{found.namespace}/pods/{found.name}/attach?{urlencode(query)}"
    ctx.exit(run_session(Session(api.path, path, stdin, terminal and sys.stdin.isatty())))

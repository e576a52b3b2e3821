"""``pykubelet apply``: put objects into the manifest directory of the running agent."""

from pathlib import Path

import click

from pykubelet.cli.arguments.lookup import api_of
from pykubelet.cli.arguments.pod_args import Limit, files_option
from pykubelet.cli.changes.apply_files import apply_files


@click.command(name="apply")
@click.argument("words", nargs=-1, metavar="", type=click.UNPROCESSED)
@files_option
@click.option("-n", "--namespace", default="", help="The namespace of objects that name none (default: default).")
@click.option(
    "--dry-run",
    is_flag=False,
    flag_value="client",
    default="none",
    type=click.Choice(["none", "client"]),
    metavar="[=client|none]",
    help="Print what would be done, and change nothing.",
)
@click.option("--wait", is_flag=True, help="Wait until the pods are ready, or have succeeded.")
@click.option("--timeout", type=Limit(), default="5m", show_default=True, help="Limit of --wait; 0: none.")
@click.pass_obj
def command(
    socket: object,
    words: tuple[str, ...],
    files: tuple[Path, ...],
    namespace: str,
    dry_run: str,
    wait: bool,
    timeout: float | None,
) -> None:
    """Create the objects of FILE, or change those that exist, in the agent's manifest directory.

    All files are checked first, as `pykubelet check` does; if there is an error, nothing is changed. That a ConfigMap
    or Secret is missing is only a warning here: the pod waits for it. A pod whose manifest changes is stopped and
    started again. An object is replaced in the file that defines it; a new one gets a file of its own.

    Example: pykubelet apply -f web.yaml --wait --timeout 2m
    """
    if words:
        raise click.UsageError(f"name files with -f: pykubelet apply -f {words[0]}")
    if not files:
        raise click.UsageError("no file given; for example: pykubelet apply -f web.yaml")
    apply_files(api_of(socket), files, namespace=namespace, dry_run=dry_run == "client", wait=wait, seconds=timeout)

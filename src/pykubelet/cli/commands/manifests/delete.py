"""``pykubelet delete``: take objects out of the manifest directory of the running agent."""

from pathlib import Path

import click

from pykubelet.cli.arguments.lookup import api_of
from pykubelet.cli.arguments.pod_args import Limit, SwitchCommand, files_option, selection_options
from pykubelet.cli.arguments.pod_completion import pod_names


@click.command(name="delete", cls=SwitchCommand)
@click.argument("words", nargs=-1, metavar="[KIND] NAME...", shell_complete=pod_names)
@files_option
@selection_options
@click.option("--wait/--no-wait", default=True, help="Wait until the pods are gone (default).")
@click.option("--timeout", type=Limit(), default="0", help="Limit of the wait (default: none).")
@click.option(
    "--grace-period",
    "grace_seconds",
    type=click.IntRange(-1),
    default=-1,
    help="Seconds that the pods get to end; 0: they are killed at once; -1 (default): the time of their manifests.",
)
@click.option("--now", is_flag=True, help="The same as --grace-period=1.")
@click.option("--ignore-not-found", is_flag=True, help="An object that does not exist is no error.")
@click.pass_obj
def command(
    socket: object,
    words: tuple[str, ...],
    files: tuple[Path, ...],
    namespace: str,
    selector: str,
    everything: bool,
    wait: bool,
    timeout: float | None,
    grace_seconds: int,
    now: bool,
    ignore_not_found: bool,
) -> None:
    """Delete pods, ConfigMaps or Secrets from the agent's manifest directory, and wait until the pods are gone.

    The file of an object is removed; from a file with other objects, only its document is.

    Example: pykubelet delete web        pykubelet delete -f web.yaml --wait=false
    """
    if now and grace_seconds not in (-1, 1):
        raise click.UsageError("give --now or --grace-period, not both")
    from pykubelet.cli.changes.delete_objects import ObjectsToDelete, delete_objects  # heavy

    delete_objects(
        api_of(socket),
        ObjectsToDelete(words, namespace, selector, everything, files),
        grace_seconds=1 if now else grace_seconds,
        wait=wait,
        timeout=timeout,
        ignore_not_found=ignore_not_found,
    )

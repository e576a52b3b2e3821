"""``pykubelet run-once``: run a pod to its end and show its output, as a command of this shell."""

from pathlib import Path

import click

from pykubelet.cli.arguments.lookup import api_of
from pykubelet.cli.arguments.pod_args import Limit


@click.command(name="run-once")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True), metavar="FILE|-", required=False)
@click.option(
    "-f",
    "--filename",
    "named",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE|-",
    help="The file, as other commands take it.",
)
@click.option("--timeout", type=Limit(), default="0", help="Stop the pod after this time (default: no limit).")
@click.pass_obj
def command(socket: object, file: Path | None, named: Path | None, timeout: float | None) -> None:
    """Start the pod of FILE, show the output of its containers, and exit with their status; remove the pod afterwards.

    The status is that of the first container that failed. FILE may also have ConfigMaps and Secrets, which are removed
    with the pod. A pod without restartPolicy gets Never. Ctrl-C stops the pod. With several containers, each line
    begins with the container's name.

    Example: pykubelet run-once job.yaml --timeout 10m
    """
    given = [each for each in (file, named) if each is not None]
    if len(given) != 1:
        raise click.UsageError("name one file; for example: pykubelet run-once job.yaml")
    from pykubelet.cli.changes.run_pod_once import run_pod_once  # heavy

    run_pod_once(api_of(socket), given[0], timeout)

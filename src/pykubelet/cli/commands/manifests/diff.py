"""``pykubelet diff``: what applying manifests would change."""

from pathlib import Path

import click

from pykubelet.base.errors import PykubeletError
from pykubelet.cli.arguments.lookup import api_of
from pykubelet.cli.arguments.pod_args import files_option
from pykubelet.cli.terminal import echo

_FAILED = 2


@click.command(name="diff")
@click.argument("words", nargs=-1, metavar="", type=click.UNPROCESSED)
@files_option
@click.option("-n", "--namespace", default="", help="The namespace of objects that name none (default: default).")
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...], files: tuple[Path, ...], namespace: str) -> None:
    """Show as a unified diff how the objects of FILE differ from those of the agent, defaults included.

    Exits with 0 if nothing differs, with 1 if something does, and with 2 after an error. Values of Secrets are masked.

    Example: pykubelet diff -f web.yaml
    """
    if words:
        raise click.UsageError(f"name files with -f: pykubelet diff -f {words[0]}")
    if not files:
        raise click.UsageError("no file given; for example: pykubelet diff -f web.yaml")
    from pykubelet.cli.changes.manifest_diff import manifest_diff  # heavy

    try:
        text = manifest_diff(api_of(ctx.obj), files, namespace)
    except SystemExit as problem:
        raise click.exceptions.Exit(_FAILED) from problem
    except PykubeletError as error:
        echo(f"error: {error}", err=True)
        raise click.exceptions.Exit(_FAILED) from error
    echo(text, nl=False)
    ctx.exit(1 if text else 0)

"""``pykubelet completion``: print click's shell completion script."""

import click
from click.shell_completion import get_completion_class

from pykubelet.base.errors import Invalid


@click.command(name="completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script; for bash: source <(pykubelet completion bash)."""
    completion = get_completion_class(shell)
    if completion is None:
        raise Invalid(f"no completion script for shell {shell}")
    root = ctx.find_root().command
    click.echo(completion(root, {}, "pykubelet", "_PYKUBELET_COMPLETE").source())

"""``pykubelet help``: print the help of the program or of a command."""

import click

from pykubelet.base.suggestion import did_you_mean
from pykubelet.cli.terminal import echo


def _commands(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the commands, or those of the group that is named before."""
    context = ctx.find_root()
    for word in ctx.params.get("words") or ():
        group = context.command
        found = group.get_command(context, word) if isinstance(group, click.Group) else None
        if found is None:
            return []
        context = click.Context(found, info_name=word, parent=context)
    group = context.command
    known = group.list_commands(context) if isinstance(group, click.Group) else []
    return [name for name in known if name.startswith(incomplete)]


@click.command(name="help")
@click.argument("words", nargs=-1, metavar="[COMMAND]...", shell_complete=_commands)
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Print the help of a COMMAND, as its option --help does."""
    context = ctx.find_root()
    for word in words:
        group = context.command
        found = group.get_command(context, word) if isinstance(group, click.Group) else None
        if found is None:
            known = group.list_commands(context) if isinstance(group, click.Group) else []
            raise click.UsageError(f"there is no command {word!r}{did_you_mean(word, known)}", context)
        context = click.Context(found, info_name=word, parent=context)
    echo(context.get_help())

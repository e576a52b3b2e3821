"""Groups of commands that suggest what the user may have meant by an unknown command."""

from typing import NoReturn

import click

from pykubelet.base.suggestion import did_you_mean


class SuggestingGroup(click.Group):
    """A group that names the closest command when there is none of a name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else "-"
        if not name.startswith("-") and not ctx.resilient_parsing and name not in self.list_commands(ctx):
            self._unknown(ctx, name)
        return super().resolve_command(ctx, args)

    def _unknown(self, ctx: click.Context, name: str) -> NoReturn:
        known = self.list_commands(ctx)
        advice = did_you_mean(name, known) or f"; the commands are {', '.join(known)}"
        raise click.UsageError(f"there is no command {name!r}{advice}", ctx)

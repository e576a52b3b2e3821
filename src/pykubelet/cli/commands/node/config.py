"""``pykubelet config``: show the configuration of the running agent."""

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.base.suggestion import did_you_mean
from pykubelet.cli.arguments.lookup import api_of
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.cli.command_group import SuggestingGroup
from pykubelet.cli.exit_status import ExitStatus
from pykubelet.cli.terminal import echo

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def _field_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Return the fields of the agent's configuration, with what a change of each needs; none if no agent responds."""
    from click.shell_completion import CompletionItem

    from pykubelet.cli.plan.config_changes import change_of

    socket = ctx.find_root().params.get("socket")
    try:
        fields = LocalApi(socket).get("/pykubelet/v1/config")["fields"] if isinstance(socket, Path) else ()
    except PykubeletError:
        return []
    known = sorted((each for each in fields if each["field"].lower().startswith(incomplete.lower())), key=_name)
    return [CompletionItem(each["field"], help=f"{change_of(each)}: {each['reason']}") for each in known]


def _name(field: dict[str, Any]) -> str:
    return str(field["field"])


@click.group(name="config", cls=SuggestingGroup)
def command() -> None:
    """Show the configuration of the running agent."""


@command.command(short_help="Show each field, and what a change of it needs.")
@click.argument("fields", nargs=-1, metavar="[FIELD]...", shell_complete=_field_names)
@click.option("--changed", is_flag=True, help="Only fields that are set, or that wait for a restart.")
@click.option("-o", "--output", type=click.Choice(["wide", "json"]), help="Output form; wide: whole values.")
@click.pass_context
def status(ctx: click.Context, fields: tuple[str, ...], changed: bool, output: str | None) -> None:
    """Show each field of the configuration: its value in force, its configured value, and what a change needs.

    The agent applies a change of a field live, needs a restart for it, or does not use the field. Exit status: 1 if the
    present files are refused, so that the agent goes on with the former configuration.
    """
    from pykubelet.cli.plan.config_table import config_table, is_of_interest, summary

    answer: dict[str, Any] = api_of(ctx.obj).get("/pykubelet/v1/config")
    shown = [each for each in _named(answer["fields"], fields) if not changed or is_of_interest(each)]
    if output == "json":
        echo(json.dumps({**answer, "fields": shown}, indent=2))
    else:
        whole = output == "wide" or not sys.stdout.isatty()
        width = None if whole else shutil.get_terminal_size().columns
        echo(config_table(shown, width, reasons=bool(fields)))
        echo(summary(answer), err=bool(answer["error"]))
    ctx.exit(ExitStatus.FAILED if answer["error"] else ExitStatus.DONE)


def _named(known: list[dict[str, Any]], names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the named fields, all without a name. NotFound: there is no such field."""
    by_name = {str(each["field"]): each for each in known}
    for name in names:
        if name not in by_name:
            raise NotFound(f"KubeletConfiguration has no field {name}{did_you_mean(name, by_name)}")
    return [by_name[name] for name in names] if names else known

"""Write the manual pages of the command line from its own definitions: `make man`.

python tools/gen_man.py DIRECTORY    write pykubelet.1, pykubelet-get.1, … into it

The pages are not committed: they are the texts of --help, and the table of exit statuses.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import click

import pykubelet
from pykubelet.cli.app import cli
from pykubelet.cli.exit_status import MEANINGS


def pages() -> dict[str, str]:
    """Return every page by its file name."""
    return {f"{'-'.join(words)}.1": page(words, context) for words, context in commands(("pykubelet",), cli, None)}


def commands(
    words: tuple[str, ...], command: click.Command, parent: click.Context | None
) -> Iterator[tuple[tuple[str, ...], click.Context]]:
    """Yield the words and the context of a command and of all commands below it."""
    context = click.Context(command, info_name=words[-1], parent=parent, **command.context_settings)
    yield words, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None, name
            yield from commands((*words, name), below, context)


def page(words: tuple[str, ...], context: click.Context) -> str:
    """Return one page in the macros of man(7)."""
    command, name = context.command, "-".join(words)
    lines = [f'.TH "{name.upper()}" 1 "" "pykubelet {pykubelet.__version__}" "pykubelet manual"', ".SH NAME"]
    lines.append(text(f"{name} - {command.get_short_help_str(limit=200).rstrip('.')}"))
    lines += [".SH SYNOPSIS", f".B {text(' '.join(words))}", text(" ".join(command.collect_usage_pieces(context)))]
    lines += [".SH DESCRIPTION", *paragraphs(command.help or "")]
    options = [param for param in command.get_params(context) if isinstance(param, click.Option)]
    records = [each for option in options if (each := option.get_help_record(context)) is not None]
    if records:
        lines += [".SH OPTIONS", *definitions(records)]
    if isinstance(command, click.Group):
        names = command.list_commands(context)
        below = [cast(click.Command, command.get_command(context, each)).get_short_help_str(200) for each in names]
        lines.append(".SH COMMANDS")
        lines += definitions([(f"{name}-{each}(1)", what) for each, what in zip(names, below, strict=True)])
    if len(words) == 1:
        lines += [".SH EXIT STATUS", *definitions([(str(int(status)), what) for status, what in MEANINGS.items()])]
        lines += [".SH ENVIRONMENT", *definitions([("PYKUBELET_SOCKET", "The agent's socket, as --socket.")])]
    else:
        lines += [".SH SEE ALSO", text(f"{'-'.join(words[:-1])}(1)")]
    return "\n".join(lines) + "\n"


def paragraphs(help_text: str) -> list[str]:
    """Return the paragraphs of a help text."""
    parts = re.split(r"\n\s*\n", help_text.replace("\b", "").strip())
    return [line for part in parts for line in (".PP", text(" ".join(part.split())))]


def definitions(pairs: list[tuple[str, str]]) -> list[str]:
    """Return a list of terms with their meanings."""
    lines = (line for term, what in pairs for line in (".TP", f".B {text(term)}", text(" ".join(what.split()))))
    return [line for line in lines if line]


def text(words: str) -> str:
    """Escape what troff would take for a request or an escape sequence."""
    escaped = words.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "")
    escaped = escaped.replace("…", "...").replace("“", '"').replace("”", '"')
    return f"\\&{escaped}" if escaped.startswith((".", "\\(aq")) else escaped


def main() -> int:
    """Write all pages."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in pages().items():
        (directory / name).write_text(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())

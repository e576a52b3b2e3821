"""Prints text for a person. Text of others in it can neither control the terminal nor hide or reorder what is shown."""

import os
import sys

from pykubelet.base.text import printable_lines


def echo(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print lines to stdout, or with ``err`` to stderr; ``nl`` adds a line feed.

    All but line feeds and tabs is escaped as in :func:`printable_lines`, wherever the output goes, so that what is read
    in a pager or a file is the same; so are characters that the output's encoding lacks. Values that must have one line
    are escaped by the caller. OSError: the output cannot be written; BrokenPipeError: its reader has ended.
    """
    output = sys.stderr if err else sys.stdout
    shown = f"{printable_lines(str(text))}\n" if nl else printable_lines(str(text))
    try:
        output.write(shown)
    except UnicodeEncodeError:
        output.write(shown.encode(output.encoding, "backslashreplace").decode(output.encoding))
    output.flush()


def terminal_width() -> int | None:
    """Return how many columns the terminal of stdout has, or as the variable COLUMNS says; None: it is no terminal."""
    if not sys.stdout.isatty():
        return None
    named = os.environ.get("COLUMNS", "")
    if named.isdecimal() and int(named):
        return int(named)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except OSError:
        return None

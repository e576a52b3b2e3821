"""The exit statuses of all commands; docs/command-line.md has them as a table."""

from enum import IntEnum
from typing import Final


class ExitStatus(IntEnum):
    """Exit status of a command. Commands that run a program (`exec`, `attach`, `run-once`) exit with its own status."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    TIMED_OUT = 124
    NOT_EXECUTABLE = 126
    NOT_FOUND = 127
    INTERRUPTED = 130
    PIPE_CLOSED = 141


MEANINGS: Final = {
    ExitStatus.DONE: "done",
    ExitStatus.FAILED: (
        "failed; for `check`, `config status` and `doctor`: something is wrong; for `diff`: something differs"
    ),
    ExitStatus.USAGE: "wrong usage, or a wrong configuration; nothing was done; for `diff`: it failed",
    ExitStatus.TIMED_OUT: "a time limit has passed (`wait`, `--timeout`)",
    ExitStatus.NOT_EXECUTABLE: "`exec`: the command cannot be executed",
    ExitStatus.NOT_FOUND: "`exec`: the command does not exist in the container",
    ExitStatus.INTERRUPTED: "interrupted with Ctrl-C",
    ExitStatus.PIPE_CLOSED: "the reader of the output has ended",
}
"""Meaning of each status, in the words of the documentation."""

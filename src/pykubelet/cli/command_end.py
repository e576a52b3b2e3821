"""The end of every command: errors are printed, and become the exit status."""

import os
import sys
from collections.abc import Callable
from typing import NoReturn

from pykubelet.base.errors import Invalid, PykubeletError
from pykubelet.cli.client.rejected_request import RejectedRequest
from pykubelet.cli.exit_status import ExitStatus
from pykubelet.cli.terminal import echo


class PipeClosed(Exception):  # noqa: N818 - it says what happened
    """The reader of the output has ended."""


def status_of(command: Callable[[], int]) -> int:
    """Run a command, print its error, and return an `ExitStatus`, or the status of a program that it has run."""
    try:
        return command()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else ExitStatus.DONE if end.code is None else ExitStatus.FAILED
    except PykubeletError as error:
        echo(f"error: {error}", err=True)
        return _status(error)
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED
    except (BrokenPipeError, PipeClosed):
        # The reader (head, less) has exited; buffered output is discarded.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitStatus.PIPE_CLOSED
    except OSError as error:
        names = " and ".join(repr(name) for name in (error.filename, error.filename2) if name is not None)
        echo(f"error: {names or 'the system refused a call'}: {error.strerror or error}", err=True)
        return ExitStatus.FAILED


def leave(status: int) -> NoReturn:
    """End the process without the interpreter's clean-up, which takes longer than most commands run."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        status = ExitStatus.PIPE_CLOSED
    os._exit(status)


def _status(error: PykubeletError) -> ExitStatus:
    """Return 2 for what the user has written wrongly, 1 for what the agent could not do."""
    wrong_usage = isinstance(error, Invalid) and not isinstance(error, RejectedRequest)
    return ExitStatus.USAGE if wrong_usage else ExitStatus.FAILED

"""Flags of ``pykubelet run`` for a lock file; their names are the Go kubelet's."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, TypeVar

import click

from pykubelet.base.daemon.lock_file import lock_file
from pykubelet.base.errors import Invalid
from pykubelet.cli.arguments.followed_path import FollowedPath

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: Final = (
    click.option("--lock-file", type=FollowedPath(dir_okay=False), hidden=True, help="A file that one agent locks."),
    click.option(
        "--exit-on-lock-contention",
        type=bool,
        default=False,
        is_flag=False,
        flag_value="true",
        hidden=True,
        help="End when another process opens the lock file.",
    ),
)


def lock_options(command: F) -> F:
    """Add the flags to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def take_lock(flags: dict[str, Any]) -> AbstractContextManager[None]:
    """Remove these flags from ``flags``; return the context that holds the lock. Raises Invalid."""
    path, give_way = flags.pop("lock_file"), flags.pop("exit_on_lock_contention")
    if give_way and path is None:
        raise Invalid("--exit-on-lock-contention requires --lock-file")
    return lock_file(path, give_way=give_way)

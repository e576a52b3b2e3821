"""Commands that ``pykubelet doctor --fix`` runs on the machine, after asking."""

import asyncio
import os
import shutil
import sys
from collections.abc import Iterable, Sequence

import click

from pykubelet.base import proc
from pykubelet.base.errors import Invalid, NotFound, Permanent
from pykubelet.base.units import Seconds
from pykubelet.cli.terminal import echo

_INSTALL: Seconds = 900.0
_TAIL = 2000

Argv = tuple[str, ...]


def fixes(packages: Iterable[str], commands: Iterable[Argv]) -> list[Argv]:
    """Return the commands that install Debian packages and run the others; each once. Pure."""
    missing = tuple(dict.fromkeys(packages))
    install = ("apt-get", "install", "-y", "-q", "--no-install-recommends", *missing)
    apt = [("apt-get", "update", "-q"), install] if missing else []
    return [*apt, *dict.fromkeys(filter(None, commands))]


def apply_fixes(steps: Sequence[Argv], *, ask: bool) -> None:
    """Show the commands, ask, and run them in order.

    Invalid: not root, no apt-get, or no terminal to ask on. Permanent, with the end of its output: a command failed.
    """
    for step in steps:
        echo(f"fix: {' '.join(step)}")
    if os.geteuid() != 0:
        raise Invalid("--fix must run as root: it changes the machine")
    if any(step[0] == "apt-get" for step in steps) and not shutil.which("apt-get"):
        raise Invalid("--fix installs Debian packages, and this machine has no apt-get; install the programs by hand")
    if ask:
        if not sys.stdin.isatty():
            raise Invalid("--fix changes the machine; confirm it with --yes")
        click.confirm("Run these commands?", abort=True)
    for step in steps:
        _run(step)


def _run(step: Argv) -> None:
    try:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        asyncio.run(proc.run(step, timeout=_INSTALL, env=environment))
    except NotFound as error:
        raise Permanent(f"{step[0]} is not installed") from error
    except proc.ExitError as error:
        said = (error.completed.stderr or error.completed.stdout).decode(errors="replace").strip()[-_TAIL:]
        raise Permanent(f"{' '.join(step)} failed: {said}") from error

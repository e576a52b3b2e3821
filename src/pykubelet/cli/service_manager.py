"""systemd as the service manager of this machine, through systemctl."""

import asyncio
from pathlib import Path

from pykubelet.base import proc
from pykubelet.base.errors import Permanent
from pykubelet.base.units import Seconds
from pykubelet.cli.plan.systemd_units import START_SECONDS

_RUNNING = Path("/run/systemd/system")
"""Exists while systemd is the machine's init (sd_booted(3))."""
_CALL: Seconds = 2.0 * START_SECONDS + 60.0
"""Longer than both services may take to start, one after the other."""


def systemd_runs() -> bool:
    """Return whether systemd is the init of this machine."""
    return _RUNNING.is_dir()


def systemctl(*arguments: str) -> None:
    """Run systemctl. Permanent, with its message: it failed."""
    try:
        asyncio.run(proc.run(["systemctl", *arguments], timeout=_CALL))
    except proc.ExitError as error:
        said = error.completed.stderr.decode(errors="replace").strip()
        raise Permanent(f"systemctl {' '.join(arguments)} failed: {said}") from error

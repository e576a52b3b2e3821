"""Finds the socket of the agent that commands talk to, and leaves the link by which it is found.

The order is: ``--socket``, the environment variable ``PYKUBELET_SOCKET``, the default socket if it exists, and the one
running agent that has left a link. Only agents with another ``--run-dir`` than the default leave one.
"""

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pykubelet.cli.client.socket_path import DEFAULT_SOCKET_PATH

DEFAULT_SOCKET: Final = Path(DEFAULT_SOCKET_PATH)
LINKS_DIRECTORY: Final = "/run/pykubelet-agents"
LINKS_VARIABLE: Final = "PYKUBELET_AGENTS_DIR"
_PROBE_SECONDS: Final = 1.0


def default_socket() -> Path:
    """Return the socket to use if none is named: the default one also if there are several agents, or none."""
    if may_exist(DEFAULT_SOCKET):
        return DEFAULT_SOCKET
    running = running_agents()
    return running[0] if len(running) == 1 else DEFAULT_SOCKET


def may_exist(path: Path) -> bool:
    """Return whether there is such a file, or its directory is closed to this user."""
    try:
        return path.exists()
    except PermissionError:
        return True


def running_agents() -> list[Path]:
    """Return the sockets of the agents that respond and have left a link, sorted."""
    directory = _directory()
    try:
        links = list(directory.iterdir()) if directory is not None and _is_trusted(directory) else []
    except OSError:
        return []
    found = []
    for link in links:
        with suppress(OSError):
            found.append(link.readlink())
    return [path for path in sorted(found) if _responds(path)]


@contextmanager
def linked(path: Path) -> Iterator[None]:
    """Leave a link to the agent's socket during the block; without permission to do so, do nothing."""
    link = link_of(path)
    if link is None:
        yield
        return
    directory = link.parent
    with suppress(OSError):
        directory.mkdir(mode=0o755, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(path)
    try:
        yield
    finally:
        with suppress(OSError):
            link.unlink()
            directory.rmdir()  # fails if there are links of others


def link_of(path: Path) -> Path | None:
    """Return where the agent with this socket leaves its link; None: it leaves none."""
    directory = None if path == DEFAULT_SOCKET else _directory()
    if directory is None:
        return None
    import hashlib  # large, and only the agent and reset need it

    return directory / hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


def _directory() -> Path | None:
    """Return the directory of links; None: none are left, as an empty variable says."""
    name = os.environ.get(LINKS_VARIABLE, LINKS_DIRECTORY)
    return Path(name) if name else None


def _is_trusted(directory: Path) -> bool:
    """Return whether only root or this user can have written to the directory."""
    found = directory.lstat()
    return found.st_uid in (0, os.geteuid()) and stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o022


def _responds(path: Path) -> bool:
    """Return whether a process listens; the socket of an agent that was killed remains."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_SECONDS)
        try:
            probe.connect(str(path))
        except PermissionError:
            return True
        except OSError:
            return False
    return True

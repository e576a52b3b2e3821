"""Sockets of other container runtimes on this machine, reported by `pykubelet doctor`."""

import stat
from pathlib import Path

KNOWN_SOCKETS = ("/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/cri-dockerd.sock")


def other_runtimes() -> list[str]:
    """Return the endpoints of known runtimes whose sockets exist."""
    return [f"unix://{path}" for path in KNOWN_SOCKETS if _is_socket(Path(path))]


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False

"""The cgroup of a container within the scope that systemd has created for it.

crun leaves the scope to systemd, and puts the container with its limits into the child ``container`` (crun(1),
``run.oci.systemd.subgroup``; version 2 only). The scope still counts the usage, but it has neither the container's
limits nor its throttling counters. runc uses the scope itself.
"""

from pathlib import Path
from typing import Final

_SCOPE: Final = ".scope"
_CHILD: Final = "container"


def container_cgroup(directory: Path) -> Path:
    """The cgroup with the limits of the container in ``directory``; mostly ``directory`` itself. Blocks briefly.

    crun leaves no process in the scope. A scope with processes belongs to runc, whatever child cgroups the container's
    program has created.
    """
    if not directory.name.endswith(_SCOPE):
        return directory
    child = directory / _CHILD
    try:
        alone = child.is_dir() and not (directory / "cgroup.procs").read_bytes()
    except OSError:
        return directory
    return child if alone else directory

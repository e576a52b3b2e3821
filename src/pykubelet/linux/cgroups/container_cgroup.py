"""Where a container is within the scope that systemd has made for it.

crun leaves the scope to systemd, and puts the container with its limits into ``container`` below it (crun(1),
``run.oci.systemd.subgroup``; version 2 only). The scope counts what is used all the same, but it has no limits of the
container's own, nor does it know of throttling. runc uses the scope itself.
"""

from pathlib import Path
from typing import Final

_SCOPE: Final = ".scope"
_CHILD: Final = "container"


def container_cgroup(directory: Path) -> Path:
    """The cgroup with the limits of the container that has this one; mostly this one itself. Blocks shortly.

    crun leaves no process in the scope; one with processes is runc's, whatever its program has made below it.
    """
    if not directory.name.endswith(_SCOPE):
        return directory
    child = directory / _CHILD
    try:
        alone = child.is_dir() and not (directory / "cgroup.procs").read_bytes()
    except OSError:
        return directory
    return child if alone else directory

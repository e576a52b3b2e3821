"""Detection of the machine's cgroup layout, and of whether this process may use it."""

import os
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

from msgspec import Struct, field

from pykubelet.base.errors import Permanent
from pykubelet.linux.cgroups.cgroup_types import CgroupDriver
from pykubelet.linux.cgroups.systemd import CgroupSystemd
from pykubelet.linux.cgroups.v1 import CgroupV1
from pykubelet.linux.cgroups.v2 import CgroupV2
from pykubelet.linux.filesystems.mountinfo import Mount, mounts
from pykubelet.linux.transient_units import systemd_is_running

# Mount options of v1 hierarchies other than the names of controllers.
_NOT_CONTROLLERS = frozenset(("rw", "ro", "xattr", "noprefix", "clone_children", "none", "cpuset_v2_mode"))


class Mode(StrEnum):
    """Cgroup layouts. Hybrid has the controllers on v1 and an additional v2 tree without controllers."""

    NONE = "none"
    V1 = "v1"
    HYBRID = "hybrid"
    V2 = "v2"


class Layout(Struct, frozen=True):
    """The mount points of the cgroup hierarchies."""

    mode: Mode
    unified: Path | None = None
    controllers: dict[str, Path] = field(default_factory=dict)
    """Version 1: mount point by controller (`memory`, `name=systemd`)."""
    read_only: frozenset[Path] = frozenset()

    @property
    def version(self) -> int:
        """1 or 2; 0 when there are no cgroups."""
        return {Mode.NONE: 0, Mode.V1: 1, Mode.HYBRID: 1, Mode.V2: 2}[self.mode]


def layout_of(table: Iterable[Mount]) -> Layout:
    """Derive the layout from a mount table. Pure. Of several mounts of one hierarchy the shortest path is used."""
    controllers: dict[str, Path] = {}
    unified: Path | None = None
    read_only: set[Path] = set()
    for mount in table:
        path = Path(mount.path)
        if mount.fs_type == "cgroup2":
            unified = _shorter(unified, path)
        elif mount.fs_type == "cgroup":
            for name in mount.super_options:
                if name not in _NOT_CONTROLLERS and not name.startswith("release_agent="):
                    controllers[name] = _shorter(controllers.get(name), path)
        else:
            continue
        if mount.read_only or "ro" in mount.super_options:
            read_only.add(path)
    # A tree for systemd only does not count: it has no controller.
    if any("=" not in name for name in controllers):
        mode = Mode.HYBRID if unified else Mode.V1
    else:
        mode = Mode.V2 if unified else Mode.NONE
        controllers = {}
    return Layout(mode, unified, controllers, frozenset(read_only))


def detect() -> Layout:
    """Detect the layout of this machine."""
    return layout_of(mounts())


def has_controller(layout: Layout, name: str) -> bool:
    """Whether cgroups of this machine can have the controller, such as ``hugetlb``.

    The root decides, not the cgroup of this process: systemd enables only some controllers for its services.
    """
    if layout.mode is Mode.V2 and layout.unified is not None:
        return name in (layout.unified / "cgroup.controllers").read_text().split()
    return name in layout.controllers


def problem(layout: Layout) -> str | None:
    """The reason why cgroups cannot be created here, and the remedy, as a sentence for users; None if they can."""
    if layout.mode is Mode.NONE:
        return (
            "no cgroup file system is mounted: mount one with "
            "`mount -t cgroup2 cgroup2 /sys/fs/cgroup`, or boot with systemd"
        )
    wanted = ("cpu", "memory", "pids")
    if layout.mode is Mode.V2:
        root = layout.unified or Path("/sys/fs/cgroup")
        directories = {root}
        missing = sorted(set(wanted) - set((root / "cgroup.controllers").read_text().split()))
    else:
        directories = {layout.controllers[name] for name in wanted if name in layout.controllers}
        missing = sorted(set(wanted) - set(layout.controllers))
    if missing:
        return f"cgroup controllers are missing: {', '.join(missing)} (enable them on the kernel command line)"
    locked = sorted(str(path) for path in directories if path in layout.read_only or not os.access(path, os.W_OK))
    if locked:
        return (
            f"cgroups cannot be made in {', '.join(locked)}: read-only or not permitted "
            "(run as root; in a container, privileged and with the host's cgroup namespace)"
        )
    return None


def open_driver(layout: Layout | None = None) -> CgroupDriver:
    """Open the cgroup driver of this machine. Raises Permanent if it has no cgroups."""
    layout = layout or detect()
    match layout.mode:
        case Mode.V2 if layout.unified is not None:
            return CgroupV2(layout.unified)
        case Mode.V1 | Mode.HYBRID:
            return CgroupV1(layout.controllers, (layout.unified,) if layout.unified else ())
        case _:
            raise Permanent("this machine has no cgroups mounted")


def systemd_problem(layout: Layout) -> str | None:
    """The reason why systemd cannot create cgroups here, as a sentence for users; None if it can."""
    if layout.mode is not Mode.V2:
        return "cgroupDriver systemd needs cgroup version 2, which this machine does not have: set it to cgroupfs"
    if not systemd_is_running():
        return "cgroupDriver systemd needs systemd as the machine's init: set it to cgroupfs"
    return problem(layout)


def open_systemd_driver(layout: Layout | None = None) -> CgroupDriver:
    """Open the driver that creates cgroups through systemd; check `systemd_problem` first."""
    # Imported here: with the cgroupfs driver nothing else of the daemons needs D-Bus on start.
    from pykubelet.linux.systemd import Systemd

    return CgroupSystemd(open_driver(layout), Systemd())


def _shorter(one: Path | None, other: Path) -> Path:
    return other if one is None or len(str(other)) < len(str(one)) else one

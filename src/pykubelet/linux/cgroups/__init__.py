"""Control groups, versions 1 and 2, behind one interface. Used by the agent, the runtime server and doctor.

`open_driver()` returns the `CgroupDriver` of this machine, `open_systemd_driver()` one whose cgroups systemd creates.
Paths are relative to the root of the hierarchy. Imports ``base`` and ``linux`` only; start reading at
``cgroup_types.py``.
"""

from pykubelet.linux.cgroups.cgroup_types import UNLIMITED, CgroupDriver, CgroupResources, CgroupStats, Pressure, Stall
from pykubelet.linux.cgroups.detect import (
    Layout,
    Mode,
    detect,
    has_controller,
    open_driver,
    open_systemd_driver,
    problem,
    systemd_problem,
)
from pykubelet.linux.cgroups.migration import MigrationWarmUp
from pykubelet.linux.cgroups.systemd import expand as slice_path

__all__ = [
    "UNLIMITED",
    "CgroupDriver",
    "CgroupResources",
    "CgroupStats",
    "Layout",
    "MigrationWarmUp",
    "Mode",
    "Pressure",
    "Stall",
    "detect",
    "has_controller",
    "open_driver",
    "open_systemd_driver",
    "problem",
    "slice_path",
    "systemd_problem",
]

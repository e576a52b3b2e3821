"""Control groups, versions 1 and 2 behind one contract. Used by the resource manager, stats and doctor.

`open_driver()` gives the `CgroupDriver` of this machine; paths are those below the root of the hierarchy.
"""

from pykubelet.linux.cgroups.detect import Layout, Mode, detect, open_driver, problem
from pykubelet.linux.cgroups.types import UNLIMITED, CgroupDriver, CgroupResources, CgroupStats

__all__ = [
    "UNLIMITED",
    "CgroupDriver",
    "CgroupResources",
    "CgroupStats",
    "Layout",
    "Mode",
    "detect",
    "open_driver",
    "problem",
]

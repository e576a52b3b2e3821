"""Applies kubeReserved and systemReserved to the cgroups of the daemons they are reserved for.

Source: ``enforceExistingCgroup`` of the Go kubelet (``pkg/kubelet/cm/node_container_manager_linux.go``).
"""

from pykubelet.base.errors import Invalid, Permanent, PykubeletError
from pykubelet.kubelet.actuate.cgroups.cgroup_types import ReservedCgroup
from pykubelet.kubelet.actuate.cgroups.plan import cgroup_names as names
from pykubelet.linux.cgroups import CgroupDriver


def enforce_reserved(cgroups: CgroupDriver, reserved: ReservedCgroup, style: names.NameStyle) -> None:
    """Write the limits of an existing cgroup. Blocks.

    Raises Invalid if it does not exist, and Permanent if the kernel rejects a limit, for example since the
    daemons use more memory.
    """
    field = f"{reserved.title}ReservedCgroup"
    name = names.from_path(reserved.path, style)
    if not name:
        raise Invalid(f"{field}: the root cgroup cannot be limited; name a cgroup below it")
    path = names.to_path(name, style)
    if not cgroups.exists(path):
        raise Invalid(
            f"{field}: {reserved.path!r} cgroup does not exist with all controllers (looked for {path}); create it "
            "before the agent starts, for example by a slice unit"
        )
    try:
        cgroups.update(path, reserved.limits)
    except PykubeletError as error:
        title = reserved.title.capitalize()
        text = f"Failed to enforce {title} Reserved Cgroup Limits on {reserved.path!r}: {error}"
        raise Permanent(text) from error

"""Applies kubeReserved and systemReserved to the cgroups of the daemons they are reserved for.

Source: ``enforceExistingCgroup`` of the Go kubelet (``pkg/kubelet/cm/node_container_manager_linux.go``).
"""

from pykubelet.base.errors import Invalid, Permanent, PykubeletError
from pykubelet.kubelet.actuate.cgroups.cgroup_types import ReservedCgroup
from pykubelet.kubelet.types.resources import cgroup_names as names
from pykubelet.linux.cgroups import CgroupDriver


def enforce_reserved(cgroups: CgroupDriver, reserved: ReservedCgroup, style: names.NameStyle) -> None:
    """Write the limits of an existing cgroup. Blocks.

    Raises Invalid if it does not exist, and Permanent if the kernel rejects a limit, for example since the
    daemons use more memory.
    """
    path = reserved_path(cgroups, reserved, style)
    try:
        cgroups.update(path, reserved.limits)
    except PykubeletError as error:
        title = reserved.title.capitalize()
        text = f"Failed to enforce {title} Reserved Cgroup Limits on {reserved.path!r}: {error}"
        raise Permanent(text) from error


def reserved_path(cgroups: CgroupDriver, reserved: ReservedCgroup, style: names.NameStyle) -> str:
    """Return the path of an existing cgroup. Invalid: it does not exist, or cannot be limited. Blocks."""
    field = f"{reserved.title}ReservedCgroup"
    name = names.from_path(reserved.path, style)
    if not name:
        raise Invalid(f"{field}: the root cgroup cannot be limited; name a cgroup below it")
    path = names.to_path(name, style)
    try:
        exists = cgroups.exists(path)
    except Invalid as error:
        raise Invalid(f"{field}: {error}") from error
    if not exists:
        raise Invalid(
            f"{field}: {reserved.path!r} cgroup does not exist with all controllers (looked for {path}); create it "
            "before the agent starts, for example by a slice unit"
        )
    return path


def check_reserved(cgroups: CgroupDriver, reserved: ReservedCgroup) -> None:
    """Check that a cgroup exists, when the runtime has not told yet which names it uses. Errors as above. Blocks."""
    faults: list[Invalid] = []
    for style in names.NameStyle:
        try:
            reserved_path(cgroups, reserved, style)
            return
        except Invalid as error:
            faults.append(error)
    raise faults[0]

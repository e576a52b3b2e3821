"""AppArmor profiles and SELinux labels. Pure.

A machine without the one or the other confines no container that way: what a pod asks of SELinux is then without
effect, as with every runtime; an AppArmor profile of the node that cannot be applied is refused.
"""

from pykubelet.base.errors import Invalid, Permanent
from pykubelet.criserver.spec.types import Host
from pykubelet.pb import runtime_v1_pb2 as pb

_TYPE, _FILES = "container_t", "container_file_t"


def apparmor_profile(context: pb.LinuxContainerSecurityContext, host: Host) -> str:
    """The profile to run under; empty for none.

    Permanent: this machine has no AppArmor, or the profile is not loaded. There is no default profile of our own.
    """
    name = _asked_profile(context)
    if not name or context.privileged:
        return ""
    if not host.apparmor:
        raise Permanent(f"AppArmor profile {name!r} cannot be applied: the kernel of this machine has no AppArmor")
    return name


def _asked_profile(context: pb.LinuxContainerSecurityContext) -> str:
    if context.HasField("apparmor"):
        if context.apparmor.profile_type != pb.SecurityProfile.Localhost:
            return ""
        name = context.apparmor.localhost_ref
    else:
        kind, _, name = context.apparmor_profile.partition("/")
        if kind != "localhost":
            return ""
    name = name.removeprefix("localhost/")
    if not name:
        raise Invalid("a Localhost AppArmor profile needs a name")
    return name


def check_loaded(profile: str, loaded: str) -> None:
    """Permanent when the profile is not in the kernel's list (``profiles`` of apparmorfs: ``NAME (MODE)`` lines)."""
    names = {line.rpartition(" (")[0] for line in loaded.splitlines()}
    if profile not in names:
        raise Permanent(f"AppArmor profile {profile!r} is not loaded on this machine")


def selinux_labels(context: pb.LinuxContainerSecurityContext, host: Host) -> tuple[str, str]:
    """Labels of the process and of its files; empty where SELinux is off or nothing is asked."""
    asked = context.selinux_options
    if not host.selinux or context.privileged or not (asked.user or asked.role or asked.type or asked.level):
        return "", ""
    user, role, level = asked.user or "system_u", asked.role or "system_r", asked.level or "s0"
    return f"{user}:{role}:{asked.type or _TYPE}:{level}", f"{user}:object_r:{_FILES}:{level}"

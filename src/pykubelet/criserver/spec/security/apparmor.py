"""Selects the AppArmor profile of a container, and defines the default profile. Pure.

As with other runtimes, a container whose request names no profile gets the default one if AppArmor is enabled.
"""

from collections.abc import Iterable

from pykubelet.base.errors import Invalid, Permanent
from pykubelet.criserver.spec.spec_types import Host
from pykubelet.pb import runtime_v1_pb2 as pb

DEFAULT_PROFILE = "pykubelet-default"
PARSER = "apparmor_parser"

_STARTERS = ("unconfined", "runc", "crun", "conmon")
"""The peers that may send signals to containers: unconfined, or under profiles of these names on some systems."""
_ALLOWED = ("network,", "unix,", "capability,", "file,", "umount,", "deny mount,")
_NO_WRITING = (
    "/proc/*",
    # All of /proc except the directories of processes and sys.
    "/proc/{[^0-9s]*,s,s[^y]*,sy,sy[^s]*,sys?*}/**",
    "/proc/sys/[^k]**",
    # Of /proc/sys/kernel, the shm limits of the IPC namespace stay writable.
    "/proc/sys/kernel/{?,??,[^s]**,s[^h]**,sh[^m]**}",
)
_NO_TOUCHING = ("/proc/sysrq-trigger", "/proc/mem", "/proc/kmem", "/proc/kcore")
_SEALED = (
    "/sys/[^f]*/**",
    "/sys/f[^s]*/**",
    "/sys/fs/[^c]*/**",
    "/sys/fs/c[^g]*/**",
    "/sys/fs/cg[^r]*/**",
)
_HIDDEN = ("/sys/firmware/**", "/sys/devices/virtual/powercap/**", "/sys/kernel/security/**")


def apparmor_profile(context: pb.LinuxContainerSecurityContext, host: Host) -> str:
    """The profile of the container; empty: unconfined, as privileged containers are (CRI).

    Invalid: the name is missing or the type is unknown. Permanent: it cannot be applied on this machine.
    """
    kind, name = _asked(context)
    if context.privileged or kind == pb.SecurityProfile.Unconfined:
        return ""
    if kind == pb.SecurityProfile.Localhost:
        if not host.apparmor:
            raise Permanent(f"AppArmor profile {name!r} cannot be applied: the kernel of this machine has no AppArmor")
        return name
    if not host.apparmor:
        return ""
    if host.apparmor_parser:
        return DEFAULT_PROFILE
    if kind is None:
        return ""
    raise Permanent(f"AppArmor's default profile cannot be loaded: {PARSER} is missing (apt-get install apparmor)")


def _asked(context: pb.LinuxContainerSecurityContext) -> tuple["pb.SecurityProfile.ProfileType.ValueType | None", str]:
    """Read the field, else the deprecated string: ``runtime/default``, ``unconfined`` or ``localhost/NAME``."""
    if context.HasField("apparmor"):
        kind, name = context.apparmor.profile_type, context.apparmor.localhost_ref.removeprefix("localhost/")
    else:
        match context.apparmor_profile.partition("/"):
            case ("", _, _):
                return None, ""
            case ("runtime", _, "default"):
                return pb.SecurityProfile.RuntimeDefault, ""
            case ("unconfined", "", _):
                return pb.SecurityProfile.Unconfined, ""
            case ("localhost", _, name):
                kind = pb.SecurityProfile.Localhost
            case _:
                raise Invalid(f"invalid AppArmor profile {context.apparmor_profile!r}: write localhost/NAME")
    if kind == pb.SecurityProfile.Localhost and not name:
        raise Invalid("a Localhost AppArmor profile needs a name")
    return kind, name


def is_loaded(profile: str, loaded: str) -> bool:
    """Whether the kernel's list (``profiles`` of apparmorfs: lines of ``NAME (MODE)``) contains the profile."""
    return profile in {line.rpartition(" (")[0] for line in loaded.splitlines()}


def default_profile() -> str:
    """The default profile in apparmor_parser's language (apparmor.d(5)).

    It allows all but what changes or reveals the machine: mounts, /proc except processes, /sys except cgroups, tracing
    and signalling processes of other profiles. It includes no files, so only the parser must be installed.
    """
    rules = [
        *_ALLOWED,
        *(f"signal (receive) peer={name}," for name in _STARTERS),
        f"signal (send, receive) peer={DEFAULT_PROFILE},",
        f"ptrace (trace, read, tracedby, readby) peer={DEFAULT_PROFILE},",
        *_denied(_NO_WRITING, "w"),
        *_denied(_NO_TOUCHING, "rwklx"),
        *_denied(_SEALED, "wklx"),
        *_denied(_HIDDEN, "rwklx"),
    ]
    body = "".join(f"  {rule}\n" for rule in rules)
    # The flags: mounted files from outside have no path in the container's tree, deleted files have none at all.
    return f"profile {DEFAULT_PROFILE} flags=(attach_disconnected,mediate_deleted) {{\n{body}}}\n"


def _denied(paths: Iterable[str], rights: str) -> list[str]:
    return [f"deny {path} {rights}," for path in paths]

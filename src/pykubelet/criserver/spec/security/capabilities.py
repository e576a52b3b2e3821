"""Linux capabilities of containers. Pure."""

from collections.abc import Iterable

from pykubelet.base.errors import Invalid
from pykubelet.criserver.spec.spec_types import Json
from pykubelet.pb import runtime_v1_pb2 as pb

ALL = (
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP"),
    *("LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER"),
    *("SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE"),
    *("SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP"),
    *("MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF"),
    "CHECKPOINT_RESTORE",
)
"""All capabilities, in the order of their numbers (capabilities(7))."""

DEFAULT = (
    *("CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP"),
    *("NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE"),
)
"""The default capabilities of a container: Docker's set, which all runtimes use."""


def names_of(mask: int) -> frozenset[str]:
    """Convert a bit mask, as in /proc/PID/status, to names with the CAP_ prefix."""
    return frozenset(f"CAP_{name}" for bit, name in enumerate(ALL) if mask >> bit & 1)


def capability_set(asked: pb.Capability, privileged: bool, available: frozenset[str]) -> Json:
    """Build the ``capabilities`` of an OCI process.

    None are inheritable (CVE-2022-24769) except ambient ones. Only ``available`` ones, which this process has, are
    granted; privileged containers get all of them. Invalid: an unknown name.
    """
    if privileged:
        granted = {f"CAP_{name}" for name in ALL}
        ambient: set[str] = set()
    else:
        added, dropped = _names(asked.add_capabilities), _names(asked.drop_capabilities)
        granted = set() if "ALL" in dropped else {f"CAP_{name}" for name in DEFAULT}
        if "ALL" in added:
            granted = {f"CAP_{name}" for name in ALL}
        granted |= {f"CAP_{name}" for name in added - {"ALL"}}
        granted -= {f"CAP_{name}" for name in dropped - {"ALL"}}
        ambient = {f"CAP_{name}" for name in _names(asked.add_ambient_capabilities)}
        granted |= ambient
    granted &= available
    ambient &= available
    sets: Json = {name: sorted(granted) for name in ("bounding", "effective", "permitted")}
    if ambient:
        # Ambient capabilities must be inheritable; the pod requested exactly these.
        sets |= {"ambient": sorted(ambient), "inheritable": sorted(ambient)}
    return sets


def _names(asked: Iterable[str]) -> set[str]:
    names = {name.upper().removeprefix("CAP_") for name in asked}
    unknown = names - set(ALL) - {"ALL"}
    if unknown:
        raise Invalid(f"unknown capabilities: {', '.join(sorted(unknown))}")
    return names

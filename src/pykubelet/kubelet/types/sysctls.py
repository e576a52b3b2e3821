"""Sysctls that pods may set, and their form for the runtime.

A sysctl is safe if it belongs to a namespace of the pod and does not affect other pods; the administrator may allow
other namespaced ones (``allowedUnsafeSysctls``). Admission rejects pods with others; the sandbox builder checks again.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct, field

from pykubelet.base.errors import Invalid
from pykubelet.models.core_v1 import Pod

_SAFE: Mapping[str, tuple[int, int]] = {
    "kernel.shm_rmid_forced": (0, 0),
    "net.ipv4.ip_local_port_range": (0, 0),
    "net.ipv4.tcp_syncookies": (0, 0),
    "net.ipv4.ping_group_range": (0, 0),
    "net.ipv4.ip_unprivileged_port_start": (0, 0),
    "net.ipv4.ip_local_reserved_ports": (3, 16),
    "net.ipv4.tcp_keepalive_time": (4, 5),
    "net.ipv4.tcp_fin_timeout": (4, 6),
    "net.ipv4.tcp_keepalive_intvl": (4, 5),
    "net.ipv4.tcp_keepalive_probes": (4, 5),
    "net.ipv4.tcp_rmem": (4, 15),
    "net.ipv4.tcp_wmem": (4, 15),
}
"""Safe sysctls and the first kernel that keeps them per namespace."""

_IPC_NAMES = frozenset(
    (
        "kernel.sem",
        "kernel.shmall",
        "kernel.shmmax",
        "kernel.shmmni",
        "kernel.shm_rmid_forced",
        "kernel.msgmax",
        "kernel.msgmnb",
        "kernel.msgmni",
        "kernel.shm",  # for the patterns kernel.shm* and kernel.msg*
        "kernel.msg",
    )
)
_SEGMENT = r"[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?"
_NAME = re.compile(rf"(?:{_SEGMENT}[./])*{_SEGMENT}")
_PATTERN = re.compile(rf"(?:{_SEGMENT}[./])*(?:[a-z0-9][-_a-z0-9]*)?[a-z0-9*]")
_MAX_LENGTH = 253
_BAD_VALUE = re.compile(r"[=+\x00-\x08\x0a-\x1f\x7f]")
_SWAP = str.maketrans("./", "/.")


class SysctlNamespace(StrEnum):
    """The kernel namespace that a sysctl belongs to."""

    IPC = "IPC"
    NET = "Net"


def normal_name(name: str) -> str:
    """Return the name of a sysctl in dotted form.

    ``net/ipv4/conf/eno2.100/rp_filter`` is ``net.ipv4.conf.eno2/100.rp_filter``: the first separator determines which
    of the two forms it is (sysctl.d(5)).
    """
    first = next((letter for letter in name if letter in "./"), ".")
    return name.translate(_SWAP) if first == "/" else name


def namespace_of(name: str) -> SysctlNamespace | None:
    """The namespace of a sysctl in dotted form; None if it is not known to be namespaced."""
    if name in _IPC_NAMES or name.startswith("fs.mqueue."):
        return SysctlNamespace.IPC
    return SysctlNamespace.NET if name.startswith("net.") else None


class SysctlAllowlist(Struct, frozen=True):
    """Names and name prefixes of sysctls that pods may set."""

    names: Mapping[str, SysctlNamespace] = field(default_factory=dict)
    prefixes: Mapping[str, SysctlNamespace] = field(default_factory=dict)

    @classmethod
    def make(cls, kernel: tuple[int, int], allowed_unsafe: Iterable[str] = ()) -> "SysctlAllowlist":
        """Build the list of safe sysctls for this kernel version, and the administrator's, which may end in ``*``.

        Raises Invalid for a pattern that is malformed or not namespaced.
        """
        names: dict[str, SysctlNamespace] = {}
        prefixes: dict[str, SysctlNamespace] = {}
        safe = [name for name, first in _SAFE.items() if kernel >= first]
        for pattern in (*safe, *allowed_unsafe):
            if len(pattern) > _MAX_LENGTH or not _PATTERN.fullmatch(pattern):
                raise Invalid(f"allowedUnsafeSysctls: {pattern!r} is not the name of a sysctl, nor one that ends in *")
            name, star, _ = normal_name(pattern).partition("*")
            namespace = namespace_of(name)
            if namespace is None:
                raise Invalid(
                    f"allowedUnsafeSysctls: {pattern!r} is not known to be namespaced: it would change the node"
                )
            (prefixes if star else names)[name] = namespace
        return cls(names, prefixes)

    @classmethod
    def safe(cls) -> "SysctlAllowlist":
        """The safe sysctls of any maintained kernel."""
        return cls.make((4, 19))

    @property
    def patterns(self) -> tuple[str, ...]:
        """The list as patterns: `make` with them as the administrator's returns an equal list."""
        return (*sorted(self.names), *(f"{prefix}*" for prefix in sorted(self.prefixes)))

    def refusal(self, pod: Pod) -> str | None:
        """Reason for rejecting the pod because of its sysctls; None if they are allowed."""
        context = pod.spec.security_context
        for sysctl in context.sysctls if context else ():
            wrong = self._fault(pod, sysctl.name) or _value_fault(sysctl.name, sysctl.value)
            if wrong:
                return f"forbidden sysctl: {wrong}"
        return None

    def _fault(self, pod: Pod, name: str) -> str | None:
        if len(name) > _MAX_LENGTH or not _NAME.fullmatch(name):
            return f'"{name[:_MAX_LENGTH]}" is not the name of a sysctl'
        name = normal_name(name)
        namespace = self.names.get(name)
        if namespace is None:
            namespace = next((space for start, space in self.prefixes.items() if name.startswith(start)), None)
        match namespace:
            case None:
                return f'"{name}" not allowlisted'
            case SysctlNamespace.IPC if pod.spec.host_ipc:
                return f'"{name}" not allowed with host IPC enabled'
            case SysctlNamespace.NET if pod.spec.host_network:
                return f'"{name}" not allowed with host Net enabled'
            case _:
                return None


def pod_sysctls(pod: Pod) -> dict[str, str]:
    """The pod's sysctls for the runtime, with names in dotted form, the only form that runc supports."""
    context = pod.spec.security_context
    return {normal_name(sysctl.name): sysctl.value for sysctl in context.sysctls} if context else {}


def _value_fault(name: str, value: str) -> str | None:
    # Runtimes have handed sysctls to helpers as a "+"-joined list of name=value (CVE-2022-0811).
    return f'the value of "{name}" has a character that no sysctl needs' if _BAD_VALUE.search(value) else None

"""SELinux labels of pods, their processes and their files. Pure.

Each pod has a level of its own (two MCS categories), so that the processes of one cannot use the files of another. Its
containers share the level, and with it the pod's volumes. Without SELinux on the machine, labels have no effect, as
with other runtimes.
"""

from collections.abc import Collection
from typing import Final, TypeAlias

from pykubelet.base.errors import Invalid, Transient
from pykubelet.criserver.spec.spec_types import Host
from pykubelet.pb import runtime_v1_pb2 as pb

Context: TypeAlias = pb.LinuxContainerSecurityContext | pb.LinuxSandboxSecurityContext
_CATEGORIES: Final = 1024
"""Categories of the policies of distributions (c0 to c1023)."""
LEVELS: Final = _CATEGORIES * (_CATEGORIES - 1) // 2
"""Different pairs of categories, and so the most pods with a level of their own."""


def level_of(number: int) -> str:
    """The level with the pair of categories of a number below LEVELS; different numbers have different pairs."""
    low = 0
    while number >= (width := _CATEGORIES - 1 - low):
        number -= width
        low += 1
    return f"s0:c{low},c{low + 1 + number}"


def choose_level(asked: pb.SELinuxOption, host: Host, *, seed: int, used: Collection[str]) -> str:
    """The level of a new pod: the requested one, else one that no other pod has; empty without SELinux.

    ``seed`` is any number, from which the search begins. Invalid: the requested level cannot be one; Transient: all
    levels are in use.
    """
    if not host.selinux:
        return ""
    if asked.level:
        _check(asked.level, "level")
        return asked.level
    for offset in range(LEVELS):
        if (level := level_of((seed + offset) % LEVELS)) not in used:
            return level
    raise Transient(f"all {LEVELS} SELinux levels are in use by pods; remove some")


def process_label(context: Context, host: Host, level: str) -> str:
    """The label of a process of a container or sandbox.

    Empty: without SELinux, and for privileged ones, the server's own.
    """
    if not host.selinux or context.privileged:
        return ""
    return _label(host.selinux_process, context.selinux_options, level, types=True)


def file_label(context: Context, host: Host, level: str) -> str:
    """The label of the files of a container or sandbox; empty without SELinux.

    Files of privileged containers have it, too: other containers of the pod use the same volumes.
    """
    return _label(host.selinux_files, context.selinux_options, level, types=False) if host.selinux else ""


def _label(base: str, asked: pb.SELinuxOption, level: str, *, types: bool) -> str:
    """The policy's label with what the pod requests. Files have the requested user and level only."""
    user, role, kind, given = (*base.split(":", 3), "s0")[:4]
    user, level = asked.user or user, asked.level or level or given
    if types:
        role, kind = asked.role or role, asked.type or kind
    for name, value in (("user", user), ("role", role), ("type", kind), ("level", level)):
        _check(value, name)
    return f"{user}:{role}:{kind}:{level}"


def _check(value: str, name: str) -> None:
    """Raise Invalid for a part that would change the meaning of the rest, or of mount options with the label."""
    allowed = ":,.-" if name == "level" else "_"
    if not all(letter.isascii() and (letter.isalnum() or letter in allowed) for letter in value):
        raise Invalid(f"SELinux {name} {value!r}: only letters, digits and {allowed!r} are possible")

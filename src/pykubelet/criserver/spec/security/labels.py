"""SELinux labels. Pure.

Without SELinux on the machine, the options of a pod have no effect, as with other runtimes.
"""

from pykubelet.criserver.spec.spec_types import Host
from pykubelet.pb import runtime_v1_pb2 as pb

_TYPE, _FILES = "container_t", "container_file_t"


def selinux_labels(context: pb.LinuxContainerSecurityContext, host: Host) -> tuple[str, str]:
    """The labels of the process and of its files; empty if SELinux is disabled or not requested."""
    asked = context.selinux_options
    if not host.selinux or context.privileged or not (asked.user or asked.role or asked.type or asked.level):
        return "", ""
    user, role, level = asked.user or "system_u", asked.role or "system_r", asked.level or "s0"
    return f"{user}:{role}:{asked.type or _TYPE}:{level}", f"{user}:object_r:{_FILES}:{level}"

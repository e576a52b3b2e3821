"""Names that the agent gives things: hostnames, log directories and files.

The log layout is a contract with log collectors: ``/var/log/pods/NS_NAME_UID/CONTAINER/N.log``, with N the
restart count, and links ``/var/log/containers/NAME_NS_CONTAINER-ID.log`` to them.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pykubelet.kubelet.actuate.criconfig.types import ConfigError, ConfigReason
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID
from pykubelet.models.core_v1 import Pod

_MAX_HOSTNAME = 63
_MAX_KERNEL_HOSTNAME = 64
_MAX_FILE_NAME = 255
_LOG_SUFFIX = ".log"
_MIN_CONTAINER_ID = 6
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_MAX_SUBDOMAIN = 253
_LOG_FILE = re.compile(r"([0-9]+)\.log(\..*)?")


@dataclass(frozen=True, slots=True)
class PodHostname:
    """The pod's short hostname, and its domain where ``subdomain`` gives it one."""

    name: str
    domain: str = ""

    @property
    def fqdn(self) -> str:
        return f"{self.name}.{self.domain}" if self.domain else self.name


def pod_hostname(pod: Pod, cluster_domain: str) -> PodHostname:
    """How the pod calls itself: `hostnameOverride`, else `hostname` and `subdomain`, else its name.

    Cut to 63 characters. Raises ConfigError if the spec's names are no DNS names.
    """
    spec = pod.spec
    if spec.hostname_override is not None:
        _require("hostnameOverride", spec.hostname_override, is_dns_subdomain(spec.hostname_override))
        return PodHostname(_cut(spec.hostname_override))
    if spec.hostname:
        _require("hostname", spec.hostname, is_dns_label(spec.hostname))
    domain = ""
    if spec.subdomain:
        _require("subdomain", spec.subdomain, is_dns_label(spec.subdomain))
        domain = f"{spec.subdomain}.{pod.metadata.namespace}.svc.{cluster_domain}"
    return PodHostname(_cut(spec.hostname or pod.metadata.name), domain)


def kernel_hostname(pod: Pod, hostname: PodHostname) -> str:
    """What ``uname -n`` shall say in the pod: the short name, or the full one with `setHostnameAsFQDN`.

    Raises ConfigError when the full name does not fit the kernel's 64 characters.
    """
    if not (hostname.domain and pod.spec.set_hostname_as_fqdn):
        return hostname.name
    if len(hostname.fqdn) > _MAX_KERNEL_HOSTNAME:
        raise ConfigError(
            ConfigReason.CREATE_POD_SANDBOX,
            "failed to construct FQDN from pod hostname and cluster domain, FQDN "
            f"{hostname.fqdn} is too long ({_MAX_KERNEL_HOSTNAME} characters is the max, "
            f"{len(hostname.fqdn)} characters requested)",
        )
    return hostname.fqdn


def is_dns_label(text: str) -> bool:
    """Whether the text is a label of a DNS name as Kubernetes wants it (RFC 1123, lower case)."""
    return _LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """Whether the text is labels with dots between them, 253 characters at most."""
    return len(text) <= _MAX_SUBDOMAIN and all(
        re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", part) for part in text.split(".")
    )


def pod_log_dir(log_root: str, ref: PodRef) -> str:
    """The directory of all logs of a pod."""
    return f"{log_root}/{pod_log_name(ref)}"


def pod_log_name(ref: PodRef) -> str:
    """The name of that directory."""
    return f"{ref.namespace}_{ref.name}_{ref.uid}"


def container_log_dir(log_root: str, ref: PodRef, container: str) -> str:
    """The directory of a container's logs, one file for each start."""
    return f"{pod_log_dir(log_root, ref)}/{container}"


def container_log_path(container: str, restart_count: int) -> str:
    """The log file of one start, relative to the pod's directory, as CRI wants it."""
    return f"{container}/{restart_count}{_LOG_SUFFIX}"


def uid_of_log_dir(directory_name: str) -> PodUID:
    """The uid in the name of a pod's log directory."""
    return PodUID(directory_name.rpartition("_")[2])


def restart_count_from_logs(file_names: Iterable[str]) -> int:
    """The restart count that a new start gets, from the log files of earlier ones.

    For runtimes which forget their containers at a reboot: the count is one above the highest file, so that no
    log is written over. Rotated files (``3.log.20260101-000000.gz``) count too; other names are ignored, and logs
    of attempts that never ran (:func:`unstarted_mark`).
    """
    present = set(file_names)
    # Nobody restarts 10**18 times: longer numbers are not ours, and int() of huge ones is slow.
    matches = (_LOG_FILE.fullmatch(name) for name in present)
    numbers = {int(found[1]) for found in matches if found and len(found[1]) <= 18}
    return max((number + 1 for number in numbers if unstarted_mark(number) not in present), default=0)


def unstarted_mark(restart_count: int) -> str:
    """Name of the file that says, beside an attempt's log, that the attempt is being removed since it never ran."""
    return f"{restart_count}.unstarted"


def log_link_name(ref: PodRef, container: str, container_id: ContainerID) -> str:
    """The file name of the link to a container's log, cut so that it fits any file system."""
    name = f"{ref.full_name}_{container}-{container_id}"
    return name[: _MAX_FILE_NAME - len(_LOG_SUFFIX)] + _LOG_SUFFIX


def container_id_of_log_link(file_name: str) -> ContainerID | None:
    """The container id in a log link's name; None if it is no such name or the id was cut short."""
    if not file_name.endswith(_LOG_SUFFIX):
        return None
    container_id = file_name.removesuffix(_LOG_SUFFIX).rpartition("-")[2]
    return ContainerID(container_id) if len(container_id) >= _MIN_CONTAINER_ID else None


def is_log_link_name(file_name: str) -> bool:
    """Whether a link has the name of one that this agent, or another kubelet, made to a container's log."""
    return file_name.count("_") == 2 and container_id_of_log_link(file_name) is not None


def _cut(hostname: str) -> str:
    if len(hostname) <= _MAX_HOSTNAME:
        return hostname
    return hostname[:_MAX_HOSTNAME].rstrip("-.")


def _require(field: str, value: str, valid: bool) -> None:
    if not valid:
        raise ConfigError(
            ConfigReason.CREATE_POD_SANDBOX,
            f'pod {field} "{value}" is not a valid DNS name: use lower case letters, digits and "-", '
            "beginning and ending with a letter or digit",
        )

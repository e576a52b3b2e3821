"""Names of hostnames, log directories and log files.

Log collectors rely on the log layout: ``/var/log/pods/NS_NAME_UID/CONTAINER/N.log``, with N the restart count, and
symlinks ``/var/log/containers/NAME_NS_CONTAINER-ID.log`` to them.
"""

import re
from collections.abc import Iterable

from msgspec import Struct

from pykubelet.kubelet.actuate.cri_messages.config_types import ConfigError, ConfigReason
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


class PodHostname(Struct, frozen=True):
    """The pod's short hostname, and its domain if it has a ``subdomain``."""

    name: str
    domain: str = ""

    @property
    def fqdn(self) -> str:
        return f"{self.name}.{self.domain}" if self.domain else self.name


def pod_hostname(pod: Pod, cluster_domain: str) -> PodHostname:
    """Hostname of the pod: `hostnameOverride`, else `hostname` and `subdomain`, else its name.

    Cut to 63 characters. Raises ConfigError if a name in the spec is not a valid DNS name.
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
    """Kernel hostname (``uname -n``) of the pod: the short name, or the FQDN with `setHostnameAsFQDN`.

    Raises ConfigError if the FQDN exceeds the kernel's 64 characters.
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
    """Whether the text is a DNS label as required by Kubernetes (RFC 1123, lower case)."""
    return _LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """Whether the text is a DNS subdomain: labels separated by dots, at most 253 characters."""
    return len(text) <= _MAX_SUBDOMAIN and all(
        re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", part) for part in text.split(".")
    )


def pod_log_dir(log_root: str, ref: PodRef) -> str:
    """Path of a pod's log directory."""
    return f"{log_root}/{pod_log_name(ref)}"


def pod_log_name(ref: PodRef) -> str:
    """Name of a pod's log directory."""
    return f"{ref.namespace}_{ref.name}_{ref.uid}"


def container_log_path(container: str, restart_count: int) -> str:
    """Path of the log file of one start, relative to the pod's log directory, as in CRI."""
    return f"{container}/{restart_count}{_LOG_SUFFIX}"


def uid_of_log_dir(directory_name: str) -> PodUID:
    """The uid in the name of a pod's log directory."""
    return PodUID(directory_name.rpartition("_")[2])


def restart_count_from_logs(file_names: Iterable[str]) -> int:
    """Restart count of a new start, from the log files of earlier ones.

    It is used for runtimes that lose their containers at a reboot: the count is one above the highest file, so that no
    log is overwritten. Rotated files (``3.log.20260101-000000.gz``) count too; other names, and logs of attempts that
    never ran (:func:`unstarted_mark`), are ignored.
    """
    present = set(file_names)
    # Longer numbers cannot be restart counts, and int() of huge ones is slow.
    matches = (_LOG_FILE.fullmatch(name) for name in present)
    numbers = {int(found[1]) for found in matches if found and len(found[1]) <= 18}
    return max((number + 1 for number in numbers if unstarted_mark(number) not in present), default=0)


def unstarted_mark(restart_count: int) -> str:
    """Name of the file next to an attempt's log that marks the attempt as never started and being removed."""
    return f"{restart_count}.unstarted"


def log_link_name(ref: PodRef, container: str, container_id: ContainerID) -> str:
    """File name of the symlink to a container's log, cut to the limit of file systems."""
    name = f"{ref.full_name}_{container}-{container_id}"
    return name[: _MAX_FILE_NAME - len(_LOG_SUFFIX)] + _LOG_SUFFIX


def container_id_of_log_link(file_name: str) -> ContainerID | None:
    """Container id in the name of a log symlink; None for other names, or if the id was cut."""
    if not file_name.endswith(_LOG_SUFFIX):
        return None
    container_id = file_name.removesuffix(_LOG_SUFFIX).rpartition("-")[2]
    return ContainerID(container_id) if len(container_id) >= _MIN_CONTAINER_ID else None


def is_log_link_name(file_name: str) -> bool:
    """Whether a name is that of a log symlink of this agent or another kubelet."""
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

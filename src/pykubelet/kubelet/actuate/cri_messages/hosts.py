"""Content of the managed /etc/hosts, which the agent writes for all containers of a pod."""

from collections.abc import Sequence

from pykubelet.kubelet.actuate.actuate_types import HostMount
from pykubelet.kubelet.actuate.cri_messages.names import PodHostname
from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.models.core_v1 import HostAlias, Pod

HOSTS_PATH = "/etc/hosts"
_HEADER = "# Kubernetes-managed hosts file.\n"
_HEADER_HOST_NETWORK = "# Kubernetes-managed hosts file (host network).\n"
_FIXED = (
    "127.0.0.1\tlocalhost\n"
    "::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\n"
    "fe00::0\tip6-mcastprefix\n"
    "fe00::1\tip6-allnodes\n"
    "fe00::2\tip6-allrouters\n"
)


def managed_hosts(pod_ips: Sequence[str], hostname: PodHostname, aliases: Sequence[HostAlias]) -> bytes:
    """Hosts file of a pod with its own network namespace: loopback, pod IPs, host aliases."""
    names = f"{hostname.fqdn}\t{hostname.name}" if hostname.domain else hostname.name
    own = "".join(f"{ip}\t{names}\n" for ip in pod_ips)
    return f"{_HEADER}{_FIXED}{own}{_alias_lines(aliases)}".encode()


def node_hosts(content: bytes, aliases: Sequence[HostAlias]) -> bytes:
    """Hosts file of a pod on the host network: the node's file and the pod's host aliases."""
    return _HEADER_HOST_NETWORK.encode() + content + _alias_lines(aliases).encode()


def wants_hosts(pod: Pod, container: AnyContainer, pod_ips: Sequence[str]) -> bool:
    """Whether the container gets the managed file: pod IPs are known, and it mounts no volume at /etc/hosts."""
    known = bool(pod_ips) or bool(pod.spec.host_network)
    return known and all(mount.mount_path != HOSTS_PATH for mount in container.volume_mounts)


def hosts_mount(file: str) -> HostMount:
    """Mount of the managed file; `file` is its path on the host."""
    return HostMount(HOSTS_PATH, file, selinux_relabel=True, name="k8s-managed-etc-hosts")


def _alias_lines(aliases: Sequence[HostAlias]) -> str:
    if not aliases:
        return ""
    lines = "".join(f"{alias.ip}\t{chr(9).join(alias.hostnames)}\n" for alias in aliases)
    return f"\n# Entries added by HostAliases.\n{lines}"

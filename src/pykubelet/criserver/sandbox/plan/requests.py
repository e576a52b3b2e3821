"""Interprets sandbox requests: names, namespaces, sysctls, network, file contents. Pure."""

import ipaddress
import re
from collections.abc import Mapping

from pykubelet.base.errors import Invalid
from pykubelet.criserver.cni.network_types import AttachRequest, PortMap
from pykubelet.criserver.netns.namespace_types import NamespaceKind, NamespaceSpec
from pykubelet.criserver.spec.userns import id_map
from pykubelet.criserver.types import IdMap, SandboxID
from pykubelet.models.quantity import to_value
from pykubelet.pb import runtime_v1_pb2 as pb

_PROTOCOLS = {pb.TCP: "tcp", pb.UDP: "udp", pb.SCTP: "sctp"}
_INGRESS, _EGRESS = "kubernetes.io/ingress-bandwidth", "kubernetes.io/egress-bandwidth"
# Annotations by which a pod requests addresses of networks whose configuration has the capabilities ips and mac.
_IPS, _MAC = "cni.pykubelet/ips", "cni.pykubelet/mac"
_MAC_FORM = re.compile(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}")
_SYSCTL = re.compile(r"[a-z0-9_]+([./][a-zA-Z0-9_-]+)+")
_IPC_SYSCTLS = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")
# In its own network namespace, a pod needs no capability for low ports and ping, as with other runtimes.
_PING = "net.ipv4.ping_group_range"
_OWN_NETWORK = {"net.ipv4.ip_unprivileged_port_start": "0", _PING: "0 2147483647"}


def name_of(config: pb.PodSandboxConfig) -> str:
    """The unique name of a sandbox. Invalid: a part of the metadata is missing."""
    metadata = config.metadata
    for field, value in (("name", metadata.name), ("namespace", metadata.namespace), ("uid", metadata.uid)):
        if not value:
            raise Invalid(f"a sandbox needs metadata.{field}")
    return "_".join((metadata.name, metadata.namespace, metadata.uid, str(metadata.attempt)))


def namespace_options(config: pb.PodSandboxConfig) -> pb.NamespaceOption:
    """The namespace options of the request."""
    return config.linux.security_context.namespace_options


def own_network(config: pb.PodSandboxConfig) -> bool:
    """Whether the pod has its own network namespace."""
    return namespace_options(config).network != pb.NODE


def needs_infra(config: pb.PodSandboxConfig) -> bool:
    """Whether an infra process must hold a PID namespace open that the containers share."""
    return namespace_options(config).pid == pb.POD


def namespaces(config: pb.PodSandboxConfig) -> NamespaceSpec:
    """The namespaces to create. A pod with its own network has its own host name. Invalid: a forbidden sysctl."""
    kinds: list[NamespaceKind] = []
    if own_network(config):
        kinds += [NamespaceKind.NETWORK, NamespaceKind.UTS]
    if namespace_options(config).ipc != pb.NODE:
        kinds.append(NamespaceKind.IPC)
    ids = id_map(namespace_options(config))
    if ids is not None:
        kinds.append(NamespaceKind.USER)
    if len(config.hostname.encode()) > 64:
        raise Invalid(f"host name {config.hostname!r} is longer than 64 bytes")
    return NamespaceSpec(tuple(kinds), config.hostname, sysctls(config.linux.sysctls, kinds, ids), ids)


def sysctls(asked: Mapping[str, str], kinds: list[NamespaceKind], ids: IdMap | None = None) -> dict[str, str]:
    """The sysctls to set; only those of the pod's own namespaces are allowed (CVE-2022-0811). Invalid: any other."""
    wanted = dict(_OWN_NETWORK) if NamespaceKind.NETWORK in kinds else {}
    if ids is not None and wanted:
        # The kernel rejects unmapped groups, and interprets the numbers in the writer's user namespace.
        wanted[_PING] = f"{ids.gid} {ids.gid + ids.gids - 1}"
    for name, value in asked.items():
        dotted = name.replace("/", ".")
        if not _SYSCTL.fullmatch(name) or ".." in name:
            raise Invalid(f"sysctl {name!r}: the name is invalid")
        if any(letter in value for letter in "+=\n\0"):
            raise Invalid(f"sysctl {name}: the value {value!r} has a character that is not allowed")
        network = dotted.startswith("net.") and NamespaceKind.NETWORK in kinds
        ipc = dotted.startswith(_IPC_SYSCTLS) and NamespaceKind.IPC in kinds
        if not network and not ipc:
            raise Invalid(f"sysctl {name} is not allowed: it does not belong to a namespace of the pod's own")
        wanted[name] = value
    return wanted


def attach_request(
    sandbox: SandboxID, config: pb.PodSandboxConfig, netns: str, *, conf_dir: str = "", max_networks: int = 0
) -> AttachRequest:
    """Build the request to attach a sandbox to the node's networks, or to those of its handler's own directory."""
    return AttachRequest(
        sandbox=sandbox,
        netns=netns,
        namespace=config.metadata.namespace,
        pod=config.metadata.name,
        uid=config.metadata.uid,
        ports=tuple(
            PortMap(port.host_port, port.container_port, _protocol(port), port.host_ip)
            for port in config.port_mappings
            if port.host_port > 0
        ),
        ingress_rate=_rate(config, _INGRESS),
        egress_rate=_rate(config, _EGRESS),
        dns_servers=tuple(config.dns_config.servers),
        dns_searches=tuple(config.dns_config.searches),
        dns_options=tuple(config.dns_config.options),
        ips=_ips(config.annotations.get(_IPS, "")),
        mac=_mac(config.annotations.get(_MAC, "")),
        annotations=dict(config.annotations),
        cgroup_parent=config.linux.cgroup_parent,
        conf_dir=conf_dir,
        max_networks=max_networks,
    )


def _protocol(port: pb.PortMapping) -> str:
    known = _PROTOCOLS.get(port.protocol)
    if known is None:
        raise Invalid(f"port mapping {port.container_port}: unknown protocol {port.protocol}; use TCP, UDP or SCTP")
    return known


def _ips(text: str) -> tuple[str, ...]:
    found = tuple(word.strip() for word in text.split(",") if word.strip())
    for word in found:
        try:
            ipaddress.ip_interface(word)
        except ValueError as error:
            raise Invalid(f"annotation {_IPS}: {word!r} is not an IP address") from error
    return found


def _mac(text: str) -> str:
    if text and not _MAC_FORM.fullmatch(text):
        raise Invalid(f"annotation {_MAC}: {text!r} is not a hardware address")
    return text


def _rate(config: pb.PodSandboxConfig, annotation: str) -> int:
    text = config.annotations.get(annotation, "")
    if not text:
        return 0
    try:
        rate = to_value(text)
    except (ValueError, Invalid) as error:
        raise Invalid(f"annotation {annotation}: {text!r} is not a rate") from error
    # The range that Kubernetes documents for these annotations.
    if not 1000 <= rate <= 10**15:
        raise Invalid(f"annotation {annotation}: {text} must be from 1k to 1P bits per second")
    return rate


def resolv_conf(dns: pb.DNSConfig, of_node: str) -> str:
    """Build the content of /etc/resolv.conf (resolv.conf(5)); the node's if the request has no DNS configuration."""
    if not (dns.servers or dns.searches or dns.options):
        return of_node
    lines = []
    if dns.searches:
        lines.append("search " + " ".join(dns.searches))
    lines += [f"nameserver {server}" for server in dns.servers]
    if dns.options:
        lines.append("options " + " ".join(dns.options))
    if any("\n" in line for line in lines):
        raise Invalid("the DNS configuration must not contain line breaks")
    return "\n".join(lines) + "\n"

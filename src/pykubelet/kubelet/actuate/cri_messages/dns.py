"""Resolver configuration of a pod: name servers, search domains and options.

Rules: Kubernetes' "DNS for Services and Pods", `dnsPolicy` and `dnsConfig`; limits as the API validates them.
"""

from collections.abc import Iterable
from enum import Enum

from msgspec import Struct

from pykubelet.kubelet.actuate.cri_messages.config_types import Resolver, describe
from pykubelet.kubelet.types.reports.events import Reason
from pykubelet.models.core_v1 import Pod, PodDNSConfig

MAX_NAMESERVERS = 3
MAX_SEARCHES = 32
MAX_SEARCH_CHARS = 2048
MAX_SEARCH_LENGTH = 253
"""Some C libraries abort on a longer search domain."""
MISSING_CLUSTER_DNS = "MissingClusterDNS"
_NO_CLUSTER_DNS = (
    'kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. '
    'Falling back to "Default" policy.'
)
_CLUSTER_OPTIONS = ("ndots:5",)


class DnsWarning(Struct, frozen=True):
    """Event for the pod: its DNS configuration was cut or replaced."""

    reason: str
    message: str


class PodDns(Struct, frozen=True):
    """Content of a pod's resolv.conf, and warnings about omitted parts."""

    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    warnings: tuple[DnsWarning, ...] = ()


class _Base(Enum):
    CLUSTER = "the cluster's servers"
    NODE = "the node's resolv.conf"
    NONE = "nothing"


def pod_dns(pod: Pod, resolver: Resolver) -> PodDns:
    """The pod's resolver configuration by its `dnsPolicy` and `dnsConfig`, cut to the limits."""
    base = _base(pod)
    warnings: list[DnsWarning] = []
    if base is _Base.CLUSTER and not resolver.cluster_dns:
        if resolver.in_cluster:
            warnings.append(DnsWarning(MISSING_CLUSTER_DNS, f'pod: "{describe(pod)}". {_NO_CLUSTER_DNS}'))
        base = _Base.NODE
    match base:
        case _Base.NONE:
            dns = PodDns()
        case _Base.CLUSTER:
            dns = PodDns(resolver.cluster_dns, _cluster_searches(pod, resolver), _CLUSTER_OPTIONS)
        case _Base.NODE if resolver.has_file:
            dns = PodDns(resolver.nameservers, resolver.searches, resolver.options)
        case _Base.NODE:
            # resolv.conf(5): the default is the local machine. It is set explicitly, or the runtime would use its own.
            servers = tuple("::1" if ":" in ip else "127.0.0.1" for ip in resolver.node_ips)
            dns = PodDns(servers or ("127.0.0.1",), (".",))
    if pod.spec.dns_config:
        dns = _merged(dns, pod.spec.dns_config)
    return _within_limits(dns, warnings)


def parse_resolv_conf(text: str) -> Resolver:
    """Parse the node's resolv.conf: servers, search domains and options, without the cluster's DNS.

    `nameserver` lines add up; of `search` lines the last one counts; a later option replaces one of its name
    (resolv.conf(5)). Invalid lines are ignored, as in the C library.
    """
    servers: list[str] = []
    searches: tuple[str, ...] = ()
    options: dict[str, str] = {}
    for line in text.split("\n"):
        match line.split():
            case ["nameserver", server, *_]:
                servers.append(server)
            case ["search", *domains]:
                searches = tuple(domain.removesuffix(".") for domain in domains if domain != ".")
            case ["options", *words]:
                options.update({word.partition(":")[0]: word for word in words})
            case _:
                pass
    return Resolver(tuple(servers), searches, tuple(options.values()))


def resolv_conf_fault(resolver: Resolver, path: str) -> str | None:
    """Problem of the node's search domains, for an event of the node at start-up; None if they are valid."""
    room = MAX_SEARCHES - 3 if resolver.cluster_domain else MAX_SEARCHES
    if len(resolver.searches) > room:
        return f"Resolv.conf file '{path}' contains search line consisting of more than {room} domains!"
    if any(len(domain) > MAX_SEARCH_LENGTH for domain in resolver.searches):
        return (
            f'Resolv.conf file "{path}" contains a search path which length is more than allowed '
            f"{MAX_SEARCH_LENGTH} chars!"
        )
    if len(" ".join(resolver.searches)) > MAX_SEARCH_CHARS:
        return (
            f"Resolv.conf file '{path}' contains search line which length is more than allowed "
            f"{MAX_SEARCH_CHARS} chars!"
        )
    return None


def _base(pod: Pod) -> _Base:
    match pod.spec.dns_policy:
        case "None":
            return _Base.NONE
        case "Default":
            return _Base.NODE
        case "ClusterFirst" | "" if pod.spec.host_network:
            return _Base.NODE
        case _:  # ClusterFirst, ClusterFirstWithHostNet, and any other value
            return _Base.CLUSTER


def _cluster_searches(pod: Pod, resolver: Resolver) -> tuple[str, ...]:
    domain = resolver.cluster_domain
    if not domain:
        return resolver.searches
    return _unique((f"{pod.metadata.namespace}.svc.{domain}", f"svc.{domain}", domain, *resolver.searches))


def _merged(dns: PodDns, config: PodDNSConfig) -> PodDns:
    options: dict[str, str] = {}
    for option in dns.options:
        name, _, value = option.partition(":")
        options[name] = value
    options.update({option.name: option.value for option in config.options})
    return PodDns(
        _unique((*dns.servers, *config.nameservers)),
        _unique((*dns.searches, *config.searches)),
        tuple(f"{name}:{value}" if value else name for name, value in options.items()),
    )


def _within_limits(dns: PodDns, warnings: list[DnsWarning]) -> PodDns:
    servers = dns.servers[:MAX_NAMESERVERS]
    if servers != dns.servers:
        warnings.append(
            DnsWarning(
                Reason.DNS_CONFIG_FORMING,
                "Nameserver limits were exceeded, some nameservers have been omitted, "
                f"the applied nameserver line is: {' '.join(servers)}",
            )
        )
    searches = tuple(name for name in dns.searches[:MAX_SEARCHES] if len(name) <= MAX_SEARCH_LENGTH)
    while len(" ".join(searches)) > MAX_SEARCH_CHARS:
        searches = searches[:-1]
    if searches != dns.searches:
        warnings.append(
            DnsWarning(
                Reason.DNS_CONFIG_FORMING,
                "Search Line limits were exceeded, some search paths have been omitted, "
                f"the applied search line is: {' '.join(searches)}",
            )
        )
    return PodDns(servers, searches, dns.options, tuple(warnings))


def _unique(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))

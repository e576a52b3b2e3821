"""Rules about the values of single fields of KubeletConfiguration, for values that could never take effect. Pure.

Sources: the Go kubelet's ``ValidateKubeletConfiguration`` (``pkg/kubelet/apis/config/validation``), and its
``component-base/logs/api/v1`` for ``logging``. Some values that upstream finds out later that it cannot use, or ignores
with a line in its log (``clusterDNS``), are refused here, too.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec

from pykubelet.base.errors import Invalid
from pykubelet.base.suggestion import closest
from pykubelet.base.units import Seconds, parse_duration
from pykubelet.kubelet.config.v1beta1 import KubeletConfiguration
from pykubelet.kubelet.types.ip_addresses import is_ip

_ID_UNIT: Final = 65536
_ALL_IDS: Final = 1 << 32
_INT32: Final = (1 << 31) - 1
_WIDE: Final = ("podPidsLimit", "maxOpenFiles", "userNamespaces.idsPerPod", "logging.flushFrequency")
"""Integers of 64 bits; all others have 32."""
_INT64: Final = (1 << 63) - 1
_SHORTEST_PERIOD: Final[Seconds] = 0.01
_LOG_FORMATS: Final = ("text", "json")
_LOG_FIELDS: Final = ("format", "flushFrequency", "verbosity", "vmodule", "options")
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_DOMAIN: Final = re.compile(r"[a-z0-9_]([-a-z0-9_]*[a-z0-9_])?(\.[a-z0-9_]([-a-z0-9_]*[a-z0-9_])?)*\.?", re.IGNORECASE)
_CPUS: Final = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
_UNPRINTABLE: Final = re.compile(r"[\0\n\r]")


def wrong_values(config: KubeletConfiguration) -> Iterator[str]:
    """Yield a message for each violated rule; it begins with the field's name."""
    yield from _wrong_scalars(config, "")
    yield from _wrong_words(config)
    yield from _wrong_paths(config)
    yield from _wrong_periods(config)
    yield from _wrong_network(config)
    yield from _wrong_static_pod_url(config)
    yield from _wrong_pods(config)
    yield from _wrong_cpus(config)
    yield from _wrong_logging(config.logging)


def _wrong_scalars(value: object, path: str) -> Iterator[str]:
    """Check each number and text of the configuration."""
    match value:
        case bool():
            return
        case int() if path in _WIDE and not -_INT64 <= value <= _INT64:
            yield f"{path}: must be an integer of 64 bits"
        case int() if path not in _WIDE and not -_INT32 <= value <= _INT32:
            yield f"{path}: must be an integer of 32 bits, at most {_INT32}"
        case str() if _UNPRINTABLE.search(value):
            yield f"{path}: must not contain line breaks or NUL"
        case msgspec.Struct():
            for field in msgspec.structs.fields(type(value)):
                inner = f"{path}.{field.encode_name}" if path else field.encode_name
                yield from _wrong_scalars(getattr(value, field.name), inner)
        case dict():
            for key, each in value.items():
                yield from _wrong_scalars(key, path)
                yield from _wrong_scalars(each, f"{path}.{key}")
        case list() | tuple():
            for index, each in enumerate(value):
                yield from _wrong_scalars(each, f"{path}[{index}]")


def _wrong_words(config: KubeletConfiguration) -> Iterator[str]:
    for field, value, known in (
        ("hairpinMode", config.hairpin_mode, ("promiscuous-bridge", "hairpin-veth", "none")),
        (
            "topologyManagerPolicy",
            config.topology_manager_policy,
            ("none", "best-effort", "restricted", "single-numa-node"),
        ),
        ("topologyManagerScope", config.topology_manager_scope, ("container", "pod")),
        ("cpuManagerPolicy", config.cpu_manager_policy, ("none", "static")),
        ("memoryManagerPolicy", config.memory_manager_policy, ("None", "Static")),
    ):
        if value not in known:
            yield f"{field}: {value!r} is not known; use {', '.join(known)}"


def _wrong_paths(config: KubeletConfiguration) -> Iterator[str]:
    for field, path in (
        ("staticPodPath", config.static_pod_path),
        ("resolvConf", config.resolv_conf),
        ("tlsCertFile", config.tls_cert_file),
        ("tlsPrivateKeyFile", config.tls_private_key_file),
        ("authentication.x509.clientCAFile", config.authentication.x509.client_ca_file),
        ("podLogsDir", config.pod_logs_dir),
    ):
        if path and not path.startswith("/"):
            yield f"{field}: {path!r} must be an absolute path: the agent has no directory that it could be relative to"
    directory = config.pod_logs_dir
    if directory.startswith("/") and any(part in ("", ".", "..") for part in directory[1:].split("/")):
        yield f"podLogsDir: {directory!r} must be normalized: without '.', '..', '//' and a slash at its end"
    if not directory.isascii():
        yield f"podLogsDir: {directory!r} must contain ASCII characters only"


def _wrong_periods(config: KubeletConfiguration) -> Iterator[str]:
    """A loop with a period of almost nothing takes a processor."""
    for field, text in (
        ("fileCheckFrequency", config.file_check_frequency),
        ("httpCheckFrequency", config.http_check_frequency),
        ("nodeStatusUpdateFrequency", config.node_status_update_frequency),
        ("nodeStatusReportFrequency", config.node_status_report_frequency),
        ("syncFrequency", config.sync_frequency),
        ("volumeStatsAggPeriod", config.volume_stats_agg_period),
        ("runtimeRequestTimeout", config.runtime_request_timeout),
    ):
        try:
            seconds = parse_duration(text)
        except Invalid:
            continue  # reported with the other durations
        if 0 < seconds < _SHORTEST_PERIOD:
            yield f"{field}: must be at least 10ms"


def _wrong_network(config: KubeletConfiguration) -> Iterator[str]:
    for index, server in enumerate(config.cluster_dns):
        if not is_ip(server):
            yield f"clusterDNS[{index}]: {server!r} is not an IP address; write that of the cluster's DNS service"
    if config.cluster_domain and not _DOMAIN.fullmatch(config.cluster_domain):
        yield f"clusterDomain: {config.cluster_domain!r} is not a domain; write for example cluster.local"
    for field, bit in (
        ("iptablesDropBit", config.iptables_drop_bit),
        ("iptablesMasqueradeBit", config.iptables_masquerade_bit),
    ):
        if not 0 <= bit <= 31:
            yield f"{field}: must be from 0 to 31"


def _wrong_static_pod_url(config: KubeletConfiguration) -> Iterator[str]:
    url = config.static_pod_url
    if url and not _is_url(url):
        shown = url.rpartition("@")[2]
        yield f"staticPodURL: {shown!r} cannot be read from; write http://HOST[:PORT]/PATH or https://HOST[:PORT]/PATH"
    for name in config.static_pod_url_header:
        if not _HEADER.fullmatch(name):
            yield f"staticPodURLHeader: {name!r} is not the name of a header"


def _wrong_pods(config: KubeletConfiguration) -> Iterator[str]:
    if config.pod_pids_limit < -1:
        yield "podPidsLimit: must be -1 (no limit) or more"
    if config.eviction_max_pod_grace_period < 0:
        yield "evictionMaxPodGracePeriod: must not be negative"
    ids = config.user_namespaces.ids_per_pod
    if not 0 < ids < _ALL_IDS or ids % _ID_UNIT:
        yield f"userNamespaces.idsPerPod: must be a multiple of {_ID_UNIT} below {_ALL_IDS}"
    if config.max_open_files < 0:
        yield "maxOpenFiles: must not be negative"
    if config.run_once:
        yield "runOnce: the mode does not exist; use the command pykubelet run-once, or omit the field"
    if config.enable_system_log_query and not config.enable_system_log_handler:
        yield "enableSystemLogQuery: needs enableSystemLogHandler: true"


def _wrong_cpus(config: KubeletConfiguration) -> Iterator[str]:
    cpus = config.reserved_system_cp_us
    if cpus and not _CPUS.fullmatch(cpus):
        yield f"reservedSystemCPUs: {cpus!r} is not a list of CPUs; write for example 0,2-3"
    if cpus and (config.system_reserved_cgroup or config.kube_reserved_cgroup):
        yield "reservedSystemCPUs: cannot be used with systemReservedCgroup or kubeReservedCgroup"
    if config.system_cgroups and not config.cgroup_root:
        yield "systemCgroups: needs cgroupRoot"


def _wrong_logging(logging: Mapping[str, object]) -> Iterator[str]:
    for name in logging:
        if name not in _LOG_FIELDS:
            close = closest(name, _LOG_FIELDS)
            yield f"logging.{name}: unknown field" + (f" (did you mean {close}?)" if close else "")
    form = logging.get("format", "")
    if form not in ("", *_LOG_FORMATS):
        yield f"logging.format: {form!r} is not known; use {' or '.join(_LOG_FORMATS)}"
    verbosity = logging.get("verbosity", 0)
    if not isinstance(verbosity, int) or isinstance(verbosity, bool) or verbosity < 0:
        yield f"logging.verbosity: {verbosity!r} must be an integer that is not negative"
    for name, kind, words in (("options", dict, "an object"), ("vmodule", list, "a list")):
        if not isinstance(logging.get(name) or kind(), kind):
            yield f"logging.{name}: must be {words}"
    if logging.get("vmodule") and form == "json":
        yield "logging.vmodule: needs logging.format: text"
    yield from _wrong_flush(logging.get("flushFrequency", 0))


def _wrong_flush(value: object) -> Iterator[str]:
    """A duration, or nanoseconds."""
    if isinstance(value, str):
        try:
            negative = parse_duration(value) < 0
        except Invalid as error:
            yield f"logging.flushFrequency: {error}"
            return
    elif isinstance(value, int) and not isinstance(value, bool):
        negative = value < 0
    else:
        yield "logging.flushFrequency: must be a duration, such as 5s"
        return
    if negative:
        yield "logging.flushFrequency: must not be negative"


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not any(c <= " " or c == "\x7f" for c in text)

"""The Go kubelet's other flags, accepted for compatibility.

Most are old ways to set a field of the configuration. With them, the Go kubelet's unit files, ``kubeadm-flags.env`` and
installers work unchanged. A flag wins over the same field in files. The flags are hidden in ``--help``: the
configuration file is the recommended way.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import Enum, auto
from typing import Any, Final, TypeVar

import click

from pykubelet.base.errors import Invalid

F = TypeVar("F", bound=Callable[..., Any])


class FlagKind(Enum):
    """The syntax of a flag's text, by which it becomes a value of the configuration."""

    TEXT = auto()
    NUMBER = auto()
    SWITCH = auto()
    LIST = auto()
    PAIRS = auto()
    """``a=b,c=d``."""
    GATES = auto()
    """``A=true,B=false``."""
    THRESHOLDS = auto()
    """``memory.available<100Mi,…``."""
    HEADERS = auto()
    """``a:b,a:c``: a name may have several values."""


FIELDS: Final[Mapping[str, tuple[FlagKind, str]]] = {
    "address": (FlagKind.TEXT, "address"),
    "allowed-unsafe-sysctls": (FlagKind.LIST, "allowedUnsafeSysctls"),
    "anonymous-auth": (FlagKind.SWITCH, "authentication.anonymous.enabled"),
    "authentication-token-webhook": (FlagKind.SWITCH, "authentication.webhook.enabled"),
    "authentication-token-webhook-cache-ttl": (FlagKind.TEXT, "authentication.webhook.cacheTTL"),
    "authorization-mode": (FlagKind.TEXT, "authorization.mode"),
    "authorization-webhook-cache-authorized-ttl": (FlagKind.TEXT, "authorization.webhook.cacheAuthorizedTTL"),
    "authorization-webhook-cache-unauthorized-ttl": (FlagKind.TEXT, "authorization.webhook.cacheUnauthorizedTTL"),
    "cgroup-driver": (FlagKind.TEXT, "cgroupDriver"),
    "cgroup-root": (FlagKind.TEXT, "cgroupRoot"),
    "cgroups-per-qos": (FlagKind.SWITCH, "cgroupsPerQOS"),
    "client-ca-file": (FlagKind.TEXT, "authentication.x509.clientCAFile"),
    "cluster-dns": (FlagKind.LIST, "clusterDNS"),
    "cluster-domain": (FlagKind.TEXT, "clusterDomain"),
    "container-log-max-files": (FlagKind.NUMBER, "containerLogMaxFiles"),
    "container-log-max-size": (FlagKind.TEXT, "containerLogMaxSize"),
    "contention-profiling": (FlagKind.SWITCH, "enableContentionProfiling"),
    "cpu-cfs-quota": (FlagKind.SWITCH, "cpuCFSQuota"),
    "cpu-cfs-quota-period": (FlagKind.TEXT, "cpuCFSQuotaPeriod"),
    "cpu-manager-policy": (FlagKind.TEXT, "cpuManagerPolicy"),
    "cpu-manager-policy-options": (FlagKind.PAIRS, "cpuManagerPolicyOptions"),
    "cpu-manager-reconcile-period": (FlagKind.TEXT, "cpuManagerReconcilePeriod"),
    "enable-controller-attach-detach": (FlagKind.SWITCH, "enableControllerAttachDetach"),
    "enable-debugging-handlers": (FlagKind.SWITCH, "enableDebuggingHandlers"),
    "enable-server": (FlagKind.SWITCH, "enableServer"),
    "enforce-node-allocatable": (FlagKind.LIST, "enforceNodeAllocatable"),
    "event-burst": (FlagKind.NUMBER, "eventBurst"),
    "event-qps": (FlagKind.NUMBER, "eventRecordQPS"),
    "eviction-hard": (FlagKind.THRESHOLDS, "evictionHard"),
    "eviction-max-pod-grace-period": (FlagKind.NUMBER, "evictionMaxPodGracePeriod"),
    "eviction-minimum-reclaim": (FlagKind.PAIRS, "evictionMinimumReclaim"),
    "eviction-pressure-transition-period": (FlagKind.TEXT, "evictionPressureTransitionPeriod"),
    "eviction-soft": (FlagKind.THRESHOLDS, "evictionSoft"),
    "eviction-soft-grace-period": (FlagKind.PAIRS, "evictionSoftGracePeriod"),
    "fail-cgroupv1": (FlagKind.SWITCH, "failCgroupV1"),
    "fail-swap-on": (FlagKind.SWITCH, "failSwapOn"),
    "feature-gates": (FlagKind.GATES, "featureGates"),
    "file-check-frequency": (FlagKind.TEXT, "fileCheckFrequency"),
    "hairpin-mode": (FlagKind.TEXT, "hairpinMode"),
    "healthz-bind-address": (FlagKind.TEXT, "healthzBindAddress"),
    "healthz-port": (FlagKind.NUMBER, "healthzPort"),
    "http-check-frequency": (FlagKind.TEXT, "httpCheckFrequency"),
    "image-gc-high-threshold": (FlagKind.NUMBER, "imageGCHighThresholdPercent"),
    "image-gc-low-threshold": (FlagKind.NUMBER, "imageGCLowThresholdPercent"),
    "kernel-memcg-notification": (FlagKind.SWITCH, "kernelMemcgNotification"),
    "kube-api-burst": (FlagKind.NUMBER, "kubeAPIBurst"),
    "kube-api-content-type": (FlagKind.TEXT, "contentType"),
    "kube-api-qps": (FlagKind.NUMBER, "kubeAPIQPS"),
    "kube-reserved": (FlagKind.PAIRS, "kubeReserved"),
    "kube-reserved-cgroup": (FlagKind.TEXT, "kubeReservedCgroup"),
    "kubelet-cgroups": (FlagKind.TEXT, "kubeletCgroups"),
    "local-storage-capacity-isolation": (FlagKind.SWITCH, "localStorageCapacityIsolation"),
    "make-iptables-util-chains": (FlagKind.SWITCH, "makeIPTablesUtilChains"),
    "manifest-url-header": (FlagKind.HEADERS, "staticPodURLHeader"),
    "max-open-files": (FlagKind.NUMBER, "maxOpenFiles"),
    "max-pods": (FlagKind.NUMBER, "maxPods"),
    "memory-manager-policy": (FlagKind.TEXT, "memoryManagerPolicy"),
    "minimum-image-ttl-duration": (FlagKind.TEXT, "imageMinimumGCAge"),
    "node-status-max-images": (FlagKind.NUMBER, "nodeStatusMaxImages"),
    "node-status-update-frequency": (FlagKind.TEXT, "nodeStatusUpdateFrequency"),
    "oom-score-adj": (FlagKind.NUMBER, "oomScoreAdj"),
    "pod-cidr": (FlagKind.TEXT, "podCIDR"),
    "pod-manifest-path": (FlagKind.TEXT, "staticPodPath"),
    "pod-max-pids": (FlagKind.NUMBER, "podPidsLimit"),
    "pods-per-core": (FlagKind.NUMBER, "podsPerCore"),
    "port": (FlagKind.NUMBER, "port"),
    "protect-kernel-defaults": (FlagKind.SWITCH, "protectKernelDefaults"),
    "qos-reserved": (FlagKind.PAIRS, "qosReserved"),
    "read-only-port": (FlagKind.NUMBER, "readOnlyPort"),
    "register-node": (FlagKind.SWITCH, "registerNode"),
    "registry-burst": (FlagKind.NUMBER, "registryBurst"),
    "registry-qps": (FlagKind.NUMBER, "registryPullQPS"),
    "reserved-cpus": (FlagKind.TEXT, "reservedSystemCPUs"),
    "resolv-conf": (FlagKind.TEXT, "resolvConf"),
    "rotate-certificates": (FlagKind.SWITCH, "rotateCertificates"),
    "rotate-server-certificates": (FlagKind.SWITCH, "serverTLSBootstrap"),
    "runonce": (FlagKind.SWITCH, "runOnce"),
    "runtime-request-timeout": (FlagKind.TEXT, "runtimeRequestTimeout"),
    "seccomp-default": (FlagKind.SWITCH, "seccompDefault"),
    "serialize-image-pulls": (FlagKind.SWITCH, "serializeImagePulls"),
    "streaming-connection-idle-timeout": (FlagKind.TEXT, "streamingConnectionIdleTimeout"),
    "sync-frequency": (FlagKind.TEXT, "syncFrequency"),
    "system-cgroups": (FlagKind.TEXT, "systemCgroups"),
    "system-reserved": (FlagKind.PAIRS, "systemReserved"),
    "system-reserved-cgroup": (FlagKind.TEXT, "systemReservedCgroup"),
    "tls-cert-file": (FlagKind.TEXT, "tlsCertFile"),
    "tls-cipher-suites": (FlagKind.LIST, "tlsCipherSuites"),
    "tls-min-version": (FlagKind.TEXT, "tlsMinVersion"),
    "tls-private-key-file": (FlagKind.TEXT, "tlsPrivateKeyFile"),
    "topology-manager-policy": (FlagKind.TEXT, "topologyManagerPolicy"),
    "topology-manager-policy-options": (FlagKind.PAIRS, "topologyManagerPolicyOptions"),
    "topology-manager-scope": (FlagKind.TEXT, "topologyManagerScope"),
    "volume-plugin-dir": (FlagKind.TEXT, "volumePluginDir"),
    "volume-stats-agg-period": (FlagKind.TEXT, "volumeStatsAggPeriod"),
}
"""Flag → kind of value, and the configuration field that it sets."""

_REPEATED: Final = (FlagKind.LIST, FlagKind.PAIRS, FlagKind.GATES, FlagKind.THRESHOLDS, FlagKind.HEADERS)
"""Kinds of flags of which each adds to those before it, as its parts do, which commas separate."""

IGNORED: Final = (
    *("experimental-allocatable-ignore-eviction", "experimental-mounter-path", "log-flush-frequency"),
    *("log-json-info-buffer-size", "log-json-split-stream", "log-text-info-buffer-size", "log-text-split-stream"),
    *("maximum-dead-containers", "maximum-dead-containers-per-container", "minimum-container-ttl-duration"),
    *("pod-infra-container-image", "reserved-memory", "runtime-cgroups", "vmodule"),
    # of cAdvisor, which is a part of the Go kubelet
    *("application-metrics-count-limit", "boot-id-file", "container-hints", "containerd", "containerd-namespace"),
    *("enable-load-reader", "event-storage-age-limit", "event-storage-event-limit", "global-housekeeping-interval"),
    *("housekeeping-interval", "log-cadvisor-usage", "machine-id-file", "max-housekeeping-interval"),
    *("storage-driver-buffer-duration", "storage-driver-db", "storage-driver-host", "storage-driver-password"),
    *("storage-driver-secure", "storage-driver-table", "storage-driver-user"),
)
"""Flags that are accepted without effect; the agent logs them at start."""


def kubelet_options(command: F) -> F:
    """Add the flags to a command."""
    for name, (kind, _) in FIELDS.items():
        # As in Go, a boolean flag stands alone or has its value after an equals sign.
        more: dict[str, Any] = {"is_flag": False, "flag_value": "true"} if kind is FlagKind.SWITCH else {}
        more["multiple"] = kind in _REPEATED
        command = click.option(f"--{name}", _parameter(name), default=None, hidden=True, **more)(command)
    for name in IGNORED:
        command = click.option(
            f"--{name}", _parameter(name), default=None, hidden=True, is_flag=False, flag_value="true"
        )(command)
    return command


def take_kubelet_flags(flags: dict[str, Any]) -> tuple[dict[str, object], list[str]]:
    """Remove these flags from ``flags``.

    Returns the fields that they set, by their paths in the configuration, and the names of flags without effect. Raises
    Invalid for a malformed value.
    """
    fields: dict[str, object] = {}
    for name, (kind, path) in FIELDS.items():
        given = flags.pop(_parameter(name))
        if given not in (None, ()):
            fields[path] = _value(name, kind, given if isinstance(given, str) else ",".join(given))
    ignored = [name for name in IGNORED if flags.pop(_parameter(name)) is not None]
    return fields, ignored


def _parameter(name: str) -> str:
    """Return the parameter's name; prefixed, since ``run`` has parameters of its own."""
    return f"kubelet_{name.replace('-', '_')}"


def _value(name: str, kind: FlagKind, text: str) -> object:
    match kind:
        case FlagKind.NUMBER:
            try:
                return int(text)
            except ValueError as error:
                raise Invalid(f"--{name}: {text!r} is not a whole number") from error
        case FlagKind.SWITCH:
            return _switch(name, text)
        case FlagKind.LIST:
            return [part.strip() for part in text.split(",") if part.strip()]
        case FlagKind.PAIRS:
            return dict(_pairs(name, text, "="))
        case FlagKind.THRESHOLDS:
            return dict(_pairs(name, text, "<"))
        case FlagKind.GATES:
            return {gate: _switch(name, on) for gate, on in _pairs(name, text, "=")}
        case FlagKind.HEADERS:
            headers: dict[str, list[str]] = {}
            for header, value in _pairs(name, text, ":"):
                headers.setdefault(header, []).append(value)
            return headers
        case FlagKind.TEXT:
            return text


def _pairs(name: str, text: str, sign: str) -> Iterator[tuple[str, str]]:
    for part in filter(None, (each.strip() for each in text.split(","))):
        key, middle, value = part.partition(sign)
        if not key or not middle:
            raise Invalid(f"--{name}: {part!r} is not NAME{sign}VALUE")
        yield key.strip(), value.strip()


def _switch(name: str, text: str) -> bool:
    known = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}
    if text.lower() not in known:
        raise Invalid(f"--{name}: {text!r} is neither true nor false")
    return known[text.lower()]

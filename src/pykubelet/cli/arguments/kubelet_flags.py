"""The Go kubelet's other flags, accepted for compatibility.

Most are old ways to set a field of the configuration. With them, the Go kubelet's unit files, ``kubeadm-flags.env`` and
installers work unchanged. A flag wins over the same field in files. The flags are hidden in ``--help``: the
configuration file is the recommended way.
"""

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any, Final, TypeVar

import click

from pykubelet.base.errors import Invalid

F = TypeVar("F", bound=Callable[..., Any])


class Kind(Enum):
    """How a flag's text becomes a value of the configuration."""

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


FIELDS: Final[Mapping[str, tuple[Kind, str]]] = {
    "address": (Kind.TEXT, "address"),
    "allowed-unsafe-sysctls": (Kind.LIST, "allowedUnsafeSysctls"),
    "anonymous-auth": (Kind.SWITCH, "authentication.anonymous.enabled"),
    "authentication-token-webhook": (Kind.SWITCH, "authentication.webhook.enabled"),
    "authentication-token-webhook-cache-ttl": (Kind.TEXT, "authentication.webhook.cacheTTL"),
    "authorization-mode": (Kind.TEXT, "authorization.mode"),
    "authorization-webhook-cache-authorized-ttl": (Kind.TEXT, "authorization.webhook.cacheAuthorizedTTL"),
    "authorization-webhook-cache-unauthorized-ttl": (Kind.TEXT, "authorization.webhook.cacheUnauthorizedTTL"),
    "cgroup-driver": (Kind.TEXT, "cgroupDriver"),
    "cgroup-root": (Kind.TEXT, "cgroupRoot"),
    "cgroups-per-qos": (Kind.SWITCH, "cgroupsPerQOS"),
    "client-ca-file": (Kind.TEXT, "authentication.x509.clientCAFile"),
    "cluster-dns": (Kind.LIST, "clusterDNS"),
    "cluster-domain": (Kind.TEXT, "clusterDomain"),
    "container-log-max-files": (Kind.NUMBER, "containerLogMaxFiles"),
    "container-log-max-size": (Kind.TEXT, "containerLogMaxSize"),
    "contention-profiling": (Kind.SWITCH, "enableContentionProfiling"),
    "cpu-cfs-quota": (Kind.SWITCH, "cpuCFSQuota"),
    "cpu-cfs-quota-period": (Kind.TEXT, "cpuCFSQuotaPeriod"),
    "cpu-manager-policy": (Kind.TEXT, "cpuManagerPolicy"),
    "cpu-manager-policy-options": (Kind.PAIRS, "cpuManagerPolicyOptions"),
    "cpu-manager-reconcile-period": (Kind.TEXT, "cpuManagerReconcilePeriod"),
    "enable-controller-attach-detach": (Kind.SWITCH, "enableControllerAttachDetach"),
    "enable-debugging-handlers": (Kind.SWITCH, "enableDebuggingHandlers"),
    "enable-server": (Kind.SWITCH, "enableServer"),
    "enforce-node-allocatable": (Kind.LIST, "enforceNodeAllocatable"),
    "event-burst": (Kind.NUMBER, "eventBurst"),
    "event-qps": (Kind.NUMBER, "eventRecordQPS"),
    "eviction-hard": (Kind.THRESHOLDS, "evictionHard"),
    "eviction-max-pod-grace-period": (Kind.NUMBER, "evictionMaxPodGracePeriod"),
    "eviction-minimum-reclaim": (Kind.PAIRS, "evictionMinimumReclaim"),
    "eviction-pressure-transition-period": (Kind.TEXT, "evictionPressureTransitionPeriod"),
    "eviction-soft": (Kind.THRESHOLDS, "evictionSoft"),
    "eviction-soft-grace-period": (Kind.PAIRS, "evictionSoftGracePeriod"),
    "fail-cgroupv1": (Kind.SWITCH, "failCgroupV1"),
    "fail-swap-on": (Kind.SWITCH, "failSwapOn"),
    "feature-gates": (Kind.GATES, "featureGates"),
    "file-check-frequency": (Kind.TEXT, "fileCheckFrequency"),
    "hairpin-mode": (Kind.TEXT, "hairpinMode"),
    "healthz-bind-address": (Kind.TEXT, "healthzBindAddress"),
    "healthz-port": (Kind.NUMBER, "healthzPort"),
    "http-check-frequency": (Kind.TEXT, "httpCheckFrequency"),
    "image-gc-high-threshold": (Kind.NUMBER, "imageGCHighThresholdPercent"),
    "image-gc-low-threshold": (Kind.NUMBER, "imageGCLowThresholdPercent"),
    "kernel-memcg-notification": (Kind.SWITCH, "kernelMemcgNotification"),
    "kube-api-burst": (Kind.NUMBER, "kubeAPIBurst"),
    "kube-api-content-type": (Kind.TEXT, "contentType"),
    "kube-api-qps": (Kind.NUMBER, "kubeAPIQPS"),
    "kube-reserved": (Kind.PAIRS, "kubeReserved"),
    "kube-reserved-cgroup": (Kind.TEXT, "kubeReservedCgroup"),
    "kubelet-cgroups": (Kind.TEXT, "kubeletCgroups"),
    "local-storage-capacity-isolation": (Kind.SWITCH, "localStorageCapacityIsolation"),
    "make-iptables-util-chains": (Kind.SWITCH, "makeIPTablesUtilChains"),
    "max-open-files": (Kind.NUMBER, "maxOpenFiles"),
    "max-pods": (Kind.NUMBER, "maxPods"),
    "memory-manager-policy": (Kind.TEXT, "memoryManagerPolicy"),
    "minimum-image-ttl-duration": (Kind.TEXT, "imageMinimumGCAge"),
    "node-status-max-images": (Kind.NUMBER, "nodeStatusMaxImages"),
    "node-status-update-frequency": (Kind.TEXT, "nodeStatusUpdateFrequency"),
    "oom-score-adj": (Kind.NUMBER, "oomScoreAdj"),
    "pod-cidr": (Kind.TEXT, "podCIDR"),
    "pod-manifest-path": (Kind.TEXT, "staticPodPath"),
    "pod-max-pids": (Kind.NUMBER, "podPidsLimit"),
    "pods-per-core": (Kind.NUMBER, "podsPerCore"),
    "port": (Kind.NUMBER, "port"),
    "protect-kernel-defaults": (Kind.SWITCH, "protectKernelDefaults"),
    "qos-reserved": (Kind.PAIRS, "qosReserved"),
    "read-only-port": (Kind.NUMBER, "readOnlyPort"),
    "register-node": (Kind.SWITCH, "registerNode"),
    "registry-burst": (Kind.NUMBER, "registryBurst"),
    "registry-qps": (Kind.NUMBER, "registryPullQPS"),
    "reserved-cpus": (Kind.TEXT, "reservedSystemCPUs"),
    "resolv-conf": (Kind.TEXT, "resolvConf"),
    "rotate-certificates": (Kind.SWITCH, "rotateCertificates"),
    "rotate-server-certificates": (Kind.SWITCH, "serverTLSBootstrap"),
    "runonce": (Kind.SWITCH, "runOnce"),
    "runtime-request-timeout": (Kind.TEXT, "runtimeRequestTimeout"),
    "seccomp-default": (Kind.SWITCH, "seccompDefault"),
    "serialize-image-pulls": (Kind.SWITCH, "serializeImagePulls"),
    "streaming-connection-idle-timeout": (Kind.TEXT, "streamingConnectionIdleTimeout"),
    "sync-frequency": (Kind.TEXT, "syncFrequency"),
    "system-cgroups": (Kind.TEXT, "systemCgroups"),
    "system-reserved": (Kind.PAIRS, "systemReserved"),
    "system-reserved-cgroup": (Kind.TEXT, "systemReservedCgroup"),
    "tls-cert-file": (Kind.TEXT, "tlsCertFile"),
    "tls-cipher-suites": (Kind.LIST, "tlsCipherSuites"),
    "tls-min-version": (Kind.TEXT, "tlsMinVersion"),
    "tls-private-key-file": (Kind.TEXT, "tlsPrivateKeyFile"),
    "topology-manager-policy": (Kind.TEXT, "topologyManagerPolicy"),
    "topology-manager-policy-options": (Kind.PAIRS, "topologyManagerPolicyOptions"),
    "topology-manager-scope": (Kind.TEXT, "topologyManagerScope"),
    "volume-plugin-dir": (Kind.TEXT, "volumePluginDir"),
    "volume-stats-agg-period": (Kind.TEXT, "volumeStatsAggPeriod"),
}
"""Flag → kind of value, and the configuration field that it sets."""

IGNORED: Final = (
    *("containerd", "experimental-allocatable-ignore-eviction", "experimental-mounter-path", "exit-on-lock-contention"),
    *(
        "lock-file",
        "maximum-dead-containers",
        "maximum-dead-containers-per-container",
        "minimum-container-ttl-duration",
    ),
    *("pod-infra-container-image", "runtime-cgroups", "vmodule"),
)
"""Flags that are accepted without effect; the agent logs them at start."""


def kubelet_options(command: F) -> F:
    """Add the flags to a command."""
    for name, (kind, _) in FIELDS.items():
        # As in Go, a boolean flag stands alone or has its value after an equals sign.
        alone: dict[str, Any] = {"is_flag": False, "flag_value": "true"} if kind is Kind.SWITCH else {}
        command = click.option(f"--{name}", _parameter(name), default=None, hidden=True, **alone)(command)
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
        text = flags.pop(_parameter(name))
        if text is not None:
            fields[path] = _value(name, kind, text)
    ignored = [name for name in IGNORED if flags.pop(_parameter(name)) is not None]
    return fields, ignored


def _parameter(name: str) -> str:
    """Return the parameter's name; prefixed, since ``run`` has parameters of its own."""
    return f"kubelet_{name.replace('-', '_')}"


def _value(name: str, kind: Kind, text: str) -> object:
    match kind:
        case Kind.NUMBER:
            try:
                return int(text)
            except ValueError as error:
                raise Invalid(f"--{name}: {text!r} is not a whole number") from error
        case Kind.SWITCH:
            return _switch(name, text)
        case Kind.LIST:
            return [part.strip() for part in text.split(",") if part.strip()]
        case Kind.PAIRS:
            return _pairs(name, text, "=")
        case Kind.THRESHOLDS:
            return _pairs(name, text, "<")
        case Kind.GATES:
            return {gate: _switch(name, on) for gate, on in _pairs(name, text, "=").items()}
        case Kind.TEXT:
            return text


def _pairs(name: str, text: str, sign: str) -> dict[str, str]:
    found = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        key, middle, value = part.partition(sign)
        if not key or not middle:
            raise Invalid(f"--{name}: {part!r} is not NAME{sign}VALUE")
        found[key.strip()] = value.strip()
    return found


def _switch(name: str, text: str) -> bool:
    known = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}
    if text.lower() not in known:
        raise Invalid(f"--{name}: {text!r} is neither true nor false")
    return known[text.lower()]

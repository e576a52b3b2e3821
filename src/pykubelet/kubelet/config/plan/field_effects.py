"""The effect of each field of KubeletConfiguration in this agent, and the requirement of its change. Pure.

A test compares the table with the fields of the type, so that a new field has to be entered here.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

from pykubelet.kubelet.config.v1beta1 import KubeletConfiguration


class ChangeRequirement(StrEnum):
    """Requirement of a change of a field."""

    LIVE = "live"
    """Nothing: the running agent applies it."""
    RESTART = "restart"
    """A restart of the agent."""
    NOTHING = "none"
    """The field has no effect."""


class FieldEffect(Struct, frozen=True):
    """Requirement of a change of one field, and its reason."""

    on_change: ChangeRequirement
    text: str
    """Live: what takes the new value. Restart: why. None: why the field has no effect."""
    cluster_only: bool = False
    """Without an API server the field has no effect."""


_STANDALONE: Final = FieldEffect(ChangeRequirement.NOTHING, "the agent has no API server")

LOG_ROTATION: Final = "log rotation"
IMAGE_GC: Final = "image garbage collection"
THRESHOLDS: Final = "eviction, and the allocatable resources"
EVICTION: Final = "eviction"
PODS: Final = "admission of new pods, and the node's status"
SYSCTLS: Final = "admission of new pods"
LOG: Final = "the agent's log"
IMAGE_PULLS: Final = "image pulls"
PRESENT_IMAGES: Final = "use of present images"
RESTARTS: Final = "back-off of containers, also of those that wait"
SOURCES: Final = "sources of static pods"
VOLUMES: Final = "measurement of the disk usage of pods"
SHUTDOWN: Final = "shutdowns of the machine that have not begun"
SYNC_LOOP: Final = "health check of the sync loop"
NODE_STATUS: Final = "the node's status"
EVENTS: Final = "events that are sent to the API server"

LIVE: Final[Mapping[str, tuple[str, ...]]] = {
    LOG_ROTATION: (
        *("containerLogMaxFiles", "containerLogMaxSize", "containerLogMaxWorkers"),
        "containerLogMonitorInterval",
    ),
    IMAGE_GC: (
        *("imageGCHighThresholdPercent", "imageGCLowThresholdPercent", "imageMaximumGCAge", "imageMinimumGCAge"),
    ),
    THRESHOLDS: ("evictionHard", "mergeDefaultEvictionSettings"),
    EVICTION: (
        *("evictionMaxPodGracePeriod", "evictionMinimumReclaim", "evictionPressureTransitionPeriod"),
        *("evictionSoft", "evictionSoftGracePeriod"),
    ),
    PODS: ("maxPods", "podsPerCore"),
    SYSCTLS: ("allowedUnsafeSysctls",),
    LOG: ("logging",),
    IMAGE_PULLS: ("maxParallelImagePulls", "registryBurst", "registryPullQPS", "serializeImagePulls"),
    PRESENT_IMAGES: ("imagePullCredentialsVerificationPolicy", "preloadedImagesVerificationAllowlist"),
    RESTARTS: ("crashLoopBackOff",),
    SOURCES: ("fileCheckFrequency", "httpCheckFrequency"),
    VOLUMES: ("volumeStatsAggPeriod",),
    SHUTDOWN: ("shutdownGracePeriod", "shutdownGracePeriodByPodPriority", "shutdownGracePeriodCriticalPods"),
    SYNC_LOOP: ("syncFrequency",),
    NODE_STATUS: ("nodeStatusMaxImages", "nodeStatusReportFrequency", "nodeStatusUpdateFrequency"),
    EVENTS: ("eventBurst", "eventRecordQPS"),
}
"""The fields that are applied live, by what takes them."""

_RESTART: Final[Mapping[str, tuple[str, ...]]] = {
    "sockets are opened at the start": (
        *("address", "enableServer", "healthzBindAddress", "healthzPort", "port", "readOnlyPort"),
    ),
    "servers choose their paths, checks and certificates at the start": (
        *("authentication", "authorization", "enableDebugFlagsHandler", "enableDebuggingHandlers"),
        *("enableProfilingHandler", "enableSystemLogHandler", "enableSystemLogQuery", "rotateCertificates"),
        *("serverTLSBootstrap", "tlsCertFile", "tlsCipherSuites", "tlsMinVersion", "tlsPrivateKeyFile"),
    ),
    "it decides where the cgroups of running pods are": ("cgroupDriver", "cgroupRoot", "cgroupsPerQOS"),
    "cgroup limits of the node are computed at the start": (
        *("enforceNodeAllocatable", "kubeReserved", "kubeReservedCgroup", "memoryReservationPolicy"),
        *("memoryThrottlingFactor", "systemReserved", "systemReservedCgroup"),
    ),
    "the cgroups of running pods have been written with it": (
        *("cpuCFSQuota", "cpuCFSQuotaPeriod", "memorySwap", "podPidsLimit", "singleProcessOOMKill"),
    ),
    "the machine is checked against it at the start": ("failCgroupV1", "failSwapOn", "protectKernelDefaults"),
    "connections are made at the start": (
        *("containerRuntimeEndpoint", "imageServiceEndpoint", "kubeAPIBurst", "kubeAPIQPS", "runtimeRequestTimeout"),
    ),
    "the node is registered at the start": (
        *("enableControllerAttachDetach", "nodeLeaseDurationSeconds", "providerID", "registerNode"),
        "registerWithTaints",
    ),
    "pods would be removed with their source": ("staticPodPath", "staticPodURL", "staticPodURLHeader"),
    "directories and links of running pods are there": ("podLogsDir",),
    "id ranges of running pods are allocated by it": ("userNamespaces",),
    "it selects code at the start": (
        *("featureGates", "kernelMemcgNotification", "makeIPTablesUtilChains", "tracing"),
    ),
    "the node's resources and the eviction of pods have to change together": ("localStorageCapacityIsolation",),
    "programs that the agent has started have inherited it": ("maxOpenFiles", "oomScoreAdj"),
    "containers of one pod would differ": ("clusterDNS", "clusterDomain", "resolvConf", "seccompDefault"),
    "it names the format of the file": ("apiVersion", "kind"),
}

_NOTHING: Final[Mapping[str, tuple[str, ...]]] = {
    "this agent pins no CPUs, memory or devices to pods": (
        *("cpuManagerPolicy", "cpuManagerPolicyOptions", "cpuManagerReconcilePeriod", "memoryManagerPolicy"),
        *("qosReserved", "reservedMemory", "reservedSystemCPUs", "topologyManagerPolicy"),
        *("topologyManagerPolicyOptions", "topologyManagerScope"),
    ),
    "ConfigMaps and Secrets are always watched": ("configMapAndSecretChangeDetectionStrategy",),
    "objects are exchanged with the API server as JSON": ("contentType",),
    "it belongs to the runtime of Go": ("enableContentionProfiling",),
    "the runtime's network configuration decides": ("hairpinMode", "podCIDR"),
    "no rule of the agent marks packets": ("iptablesDropBit", "iptablesMasqueradeBit"),
    "the service manager decides (Slice=)": ("kubeletCgroups", "systemCgroups"),
    "pykubelet run-once does that": ("runOnce",),
    "no metric is hidden": ("showHiddenMetricsForVersion",),
    "the end of streams is noticed without it, as in the Go kubelet": ("streamingConnectionIdleTimeout",),
    "Python's TLS takes a single curve": ("tlsCurvePreferences",),
    "flexVolume is not supported": ("volumePluginDir",),
}

CLUSTER_ONLY: Final = frozenset(
    (
        *("enableControllerAttachDetach", "eventBurst", "eventRecordQPS", "kubeAPIBurst", "kubeAPIQPS"),
        *("makeIPTablesUtilChains", "nodeLeaseDurationSeconds", "nodeStatusMaxImages", "nodeStatusReportFrequency"),
        *("nodeStatusUpdateFrequency", "providerID", "registerNode", "rotateCertificates"),
    )
)
"""Fields that only an agent with an API server uses."""

SECRET_VALUES: Final = frozenset(("staticPodURLHeader",))
"""Fields whose values may be credentials, and are never shown."""


def _entries() -> Iterator[tuple[str, FieldEffect]]:
    for on_change, table in (
        (ChangeRequirement.LIVE, LIVE),
        (ChangeRequirement.RESTART, _RESTART),
        (ChangeRequirement.NOTHING, _NOTHING),
    ):
        for text, names in table.items():
            for name in names:
                yield name, FieldEffect(on_change, text, name in CLUSTER_ONLY)


ENTRIES: Final = tuple(_entries())
"""Each field with its effect, in the order of the table."""
EFFECTS: Final[Mapping[str, FieldEffect]] = dict(ENTRIES)


def effect_of(field: str, *, cluster: bool) -> FieldEffect:
    """Return what a change of the field needs, in an agent with or without an API server."""
    found = EFFECTS[field]
    return _STANDALONE if found.cluster_only and not cluster else found


EFFECTIVE: Final = frozenset(
    name for name, effect in EFFECTS.items() if effect.on_change is not ChangeRequirement.NOTHING
)
"""The fields that have an effect; docs/parity.md repeats them."""


def without_effect(config: KubeletConfiguration) -> list[str]:
    """Return the names of the fields that the configuration sets and that have no effect, of some only without
    another field."""
    default = KubeletConfiguration()
    idle = {"staticPodURLHeader"} if not config.static_pod_url else set()
    return [
        field.encode_name
        for field in msgspec.structs.fields(KubeletConfiguration)
        if (field.encode_name not in EFFECTIVE or field.encode_name in idle)
        and getattr(config, field.name) != getattr(default, field.name)
    ]

"""The fields of the configuration that have an effect on this agent; docs/parity.md repeats them."""

import msgspec

from pykubelet.kubelet.config.v1beta1 import KubeletConfiguration

EFFECTIVE = frozenset(
    (
        "address",
        "allowedUnsafeSysctls",
        "apiVersion",
        "authentication",
        "authorization",
        "cgroupDriver",
        "cgroupRoot",
        "cgroupsPerQOS",
        "clusterDNS",
        "clusterDomain",
        "containerLogMaxFiles",
        "containerLogMaxSize",
        "containerLogMaxWorkers",
        "containerLogMonitorInterval",
        "containerRuntimeEndpoint",
        "cpuCFSQuota",
        "crashLoopBackOff",
        "enableControllerAttachDetach",
        "enableDebugFlagsHandler",
        "enableDebuggingHandlers",
        "enableProfilingHandler",
        "enableServer",
        "enableSystemLogHandler",
        "enableSystemLogQuery",
        "eventBurst",
        "eventRecordQPS",
        "evictionHard",
        "evictionMaxPodGracePeriod",
        "evictionMinimumReclaim",
        "evictionPressureTransitionPeriod",
        "evictionSoft",
        "evictionSoftGracePeriod",
        "failSwapOn",
        "fileCheckFrequency",
        "healthzBindAddress",
        "healthzPort",
        "httpCheckFrequency",
        "imageGCHighThresholdPercent",
        "imageGCLowThresholdPercent",
        "imageMaximumGCAge",
        "imageMinimumGCAge",
        "imageServiceEndpoint",
        "kind",
        "kubeAPIBurst",
        "kubeAPIQPS",
        "kubeReserved",
        "localStorageCapacityIsolation",
        "logging",
        "maxParallelImagePulls",
        "maxPods",
        "memorySwap",
        "mergeDefaultEvictionSettings",
        "nodeLeaseDurationSeconds",
        "nodeStatusMaxImages",
        "nodeStatusReportFrequency",
        "nodeStatusUpdateFrequency",
        "podLogsDir",
        "podPidsLimit",
        "podsPerCore",
        "port",
        "providerID",
        "readOnlyPort",
        "registerNode",
        "registerWithTaints",
        "registryBurst",
        "registryPullQPS",
        "resolvConf",
        "rotateCertificates",
        "runtimeRequestTimeout",
        "seccompDefault",
        "serializeImagePulls",
        "serverTLSBootstrap",
        "singleProcessOOMKill",
        "staticPodPath",
        "staticPodURL",
        "staticPodURLHeader",
        "syncFrequency",
        "systemReserved",
        "tlsCertFile",
        "tlsCipherSuites",
        "tlsMinVersion",
        "tlsPrivateKeyFile",
        "userNamespaces",
        "volumeStatsAggPeriod",
    )
)


def without_effect(config: KubeletConfiguration) -> list[str]:
    """Return the names of the fields that the configuration sets and that have no effect."""
    default = KubeletConfiguration()
    return [
        field.encode_name
        for field in msgspec.structs.fields(KubeletConfiguration)
        if field.encode_name not in EFFECTIVE and getattr(config, field.name) != getattr(default, field.name)
    ]

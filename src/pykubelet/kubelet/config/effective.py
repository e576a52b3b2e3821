"""Which fields of the configuration this agent acts upon so far; docs/parity.md repeats them."""

import msgspec

from pykubelet.kubelet.config.v1beta1 import KubeletConfiguration

EFFECTIVE = frozenset(
    (
        "allowedUnsafeSysctls",
        "apiVersion",
        "cgroupDriver",
        "cgroupRoot",
        "cgroupsPerQOS",
        "clusterDNS",
        "clusterDomain",
        "containerRuntimeEndpoint",
        "cpuCFSQuota",
        "crashLoopBackOff",
        "evictionHard",
        "fileCheckFrequency",
        "healthzBindAddress",
        "healthzPort",
        "httpCheckFrequency",
        "imageServiceEndpoint",
        "kind",
        "kubeReserved",
        "maxParallelImagePulls",
        "podLogsDir",
        "podPidsLimit",
        "registryBurst",
        "registryPullQPS",
        "resolvConf",
        "runtimeRequestTimeout",
        "seccompDefault",
        "serializeImagePulls",
        "staticPodPath",
        "staticPodURL",
        "staticPodURLHeader",
        "syncFrequency",
        "systemReserved",
    )
)


def without_effect(config: KubeletConfiguration) -> list[str]:
    """The fields that the configuration sets and this agent does not act upon, by name."""
    default = KubeletConfiguration()
    return [
        field.encode_name
        for field in msgspec.structs.fields(KubeletConfiguration)
        if field.encode_name not in EFFECTIVE and getattr(config, field.name) != getattr(default, field.name)
    ]

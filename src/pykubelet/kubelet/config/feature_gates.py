"""Feature gates of Kubernetes 1.36 that concern a node; docs/parity.md repeats them. Pure.

The agent has no switches for single features, except those that `SWITCHES` names: what it has is always on. A gate that
says otherwise is reported at the start. Source: ``pkg/features/kube_features.go``.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from pykubelet.base.suggestion import closest

SWITCHES: Final = frozenset(("CustomCPUCFSQuotaPeriod", "MemoryQoS"))
"""Gates that decide whether a feature can be used."""
ALWAYS_ON: Final = frozenset(
    (
        *("CSIMigrationPortworx", "CSIServiceAccountTokenSecrets", "ClusterTrustBundleProjection"),
        *("ContainerCheckpoint", "ContainerRestartRules", "ContainerStopSignals", "EnvFiles", "EventedPLEG"),
        *("ExecProbeTimeout", "ExtendWebSocketsToKubelet", "GracefulNodeShutdown"),
        *("GracefulNodeShutdownBasedOnPodPriority", "HostnameOverride", "ImageMaximumGCAge", "ImageVolume"),
        *("ImageVolumeWithDigest", "InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScaling"),
        *("InPlacePodVerticalScalingInitContainers", "KubeletCgroupDriverFromCRI", "KubeletCrashLoopBackOffMax"),
        *(
            "KubeletEnsureSecretPulledImages",
            "KubeletFineGrainedAuthz",
            "KubeletPSI",
            "KubeletSeparateDiskGC",
            "KubeletServiceAccountTokenForCredentialProviders",
            "KubeletTracing",
            "MutableCSINodeAllocatableCount",
            "NodeDeclaredFeatures",
            "NodeLogQuery",
            "NodeSwap",
        ),
        *("PodCertificateRequest", "PodLevelResources", "PodLifecycleSleepAction", "PodLifecycleSleepActionAllowZero"),
        *("PodLogsQuerySplitStreams", "PodObservedGenerationTracking", "PodReadyToStartContainersCondition"),
        *("ProcMountType", "RecoverVolumeExpansionFailure", "RecursiveReadOnlyMounts"),
        *("ReloadKubeletClientCAFile", "ReloadKubeletServerCertificateFile"),
        *("RestartAllContainersOnContainerExits", "RotateKubeletServerCertificate", "SidecarContainers"),
        *("SupplementalGroupsPolicy", "SystemdWatchdog", "UserNamespacesSupport"),
    )
)
"""Features that the agent always has."""
ABSENT: Final = frozenset(
    (
        *("AllowOverwriteTerminationGracePeriodSeconds", "CPUManagerPolicyAlphaOptions", "CPUManagerPolicyBetaOptions"),
        *("CPUManagerPolicyOptions", "CSIVolumeHealth", "ChangeContainerStatusOnKubeletRestart", "DRAAdminAccess"),
        *("DRAConsumableCapacity", "DRADeviceBindingConditions", "DRADeviceTaintRules", "DRADeviceTaints"),
        *("DRAExtendedResource", "DRAPartitionableDevices", "DRAPrioritizedList", "DRAResourceClaimDeviceStatus"),
        *("DisableCPUQuotaWithExclusiveCPUs", "DynamicResourceAllocation", "GitRepoVolumeDriver"),
        *("InPlacePodVerticalScalingAllocatedStatus", "InPlacePodVerticalScalingExclusiveCPUs"),
        *("InPlacePodVerticalScalingExclusiveMemory", "KubeletInUserNamespace"),
        *("KubeletPodResourcesDynamicResources", "KubeletPodResourcesGet", "KubeletPodResourcesListUseActivePods"),
        *("LocalStorageCapacityIsolationFSQuotaMonitoring", "MemoryManager"),
        *("PodAndContainerStatsFromCRI", "QOSReserved", "ResourceHealthStatus", "SELinuxChangePolicy", "SELinuxMount"),
        *("SELinuxMountReadWriteOncePod", "TopologyManagerPolicyAlphaOptions", "TopologyManagerPolicyBetaOptions"),
        *("TopologyManagerPolicyOptions", "UserNamespacesHostNetworkSupport"),
    )
)
"""Features that the agent does not have."""
_GROUPS: Final = frozenset(("AllAlpha", "AllBeta"))


def unusable_gates(gates: Mapping[str, bool]) -> Iterator[str]:
    """Yield a message for each gate that asks for something else than the agent does, in the order of the names.

    Gates of other components of Kubernetes are reported as well, since the table above lists those of nodes only. The
    Go kubelet does not start with an unrecognized gate.
    """
    for name, on in sorted(gates.items()):
        if name in SWITCHES or (name in ALWAYS_ON and on) or (name in ABSENT and not on):
            continue
        if name in ALWAYS_ON:
            yield f"{name}=false: the feature cannot be switched off"
        elif name in ABSENT:
            yield f"{name}=true: the feature is not implemented"
        elif name in _GROUPS:
            yield f"{name}: has no effect; name the gates"
        else:
            close = closest(name, [*SWITCHES, *ALWAYS_ON, *ABSENT])
            yield f"unrecognized feature gate: {name}" + (f" (did you mean {close}?)" if close else "")

"""All feature gates of a Kubernetes 1.36 kubelet, by what they mean here; docs/parity.md repeats them. Pure data.

A kubelet knows the gates of all components. Source: ``pkg/features/kube_features.go`` and the packages whose gates it
adds (client-go, logs, metrics, zpages).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


SWITCHES: Final[Mapping[str, bool]] = MappingProxyType(
    {
        "CustomCPUCFSQuotaPeriod": True,
        "KubeletCrashLoopBackOffMax": True,
        "MemoryQoS": False,
        "ReduceDefaultCrashLoopBackOffDecay": False,
    }
)
"""Gates that decide whether a feature can be used, with their defaults."""
ALWAYS_ON: Final = _names(
    """
    CSIServiceAccountTokenSecrets ClusterTrustBundleProjection ComponentFlagz ComponentStatusz ContainerCheckpoint
    ContainerRestartRules ContainerStopSignals DisableNodeKubeProxyVersion EnvFiles EventedPLEG ExecProbeTimeout
    ExtendWebSocketsToKubelet GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority HostnameOverride
    ImageMaximumGCAge ImageVolume ImageVolumeWithDigest InPlacePodLevelResourcesVerticalScaling
    InPlacePodVerticalScaling InPlacePodVerticalScalingInitContainers KubeletCgroupDriverFromCRI
    KubeletEnsureSecretPulledImages KubeletFineGrainedAuthz KubeletPSI KubeletSeparateDiskGC
    KubeletServiceAccountTokenForCredentialProviders KubeletTracing MutableCSINodeAllocatableCount
    NodeDeclaredFeatures NodeLogQuery NodeSwap PLEGOnDemandRelist PodCertificateRequest PodLevelResources
    PodLifecycleSleepAction PodLifecycleSleepActionAllowZero PodLogsQuerySplitStreams PodObservedGenerationTracking
    PodReadyToStartContainersCondition ProcMountType RecoverVolumeExpansionFailure RecursiveReadOnlyMounts
    RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation ReloadKubeletClientCAFile
    ReloadKubeletServerCertificateFile RestartAllContainersOnContainerExits RotateKubeletServerCertificate
    SidecarContainers SupplementalGroupsPolicy SystemdWatchdog UserNamespacesSupport
    """
)
"""Features that the agent always has."""
ABSENT: Final = _names(
    """
    AllowDNSOnlyNodeCSR AllowOverwriteTerminationGracePeriodSeconds CPUManagerPolicyAlphaOptions
    CPUManagerPolicyBetaOptions CPUManagerPolicyOptions CRIListStreaming CSIVolumeHealth
    ChangeContainerStatusOnKubeletRestart ClientsAllowCBOR ClientsPreferCBOR ContextualLogging DRAAdminAccess
    DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaintRules DRADeviceTaints DRAExtendedResource
    DRAPartitionableDevices DRAPrioritizedList DRAResourceClaimDeviceStatus DRAWorkloadResourceClaims
    DisableCPUQuotaWithExclusiveCPUs DynamicResourceAllocation GitRepoVolumeDriver
    InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory KubeletInUserNamespace
    KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletPodResourcesListUseActivePods
    KubeletRegistrationGetOnExistsOnly LocalStorageCapacityIsolationFSQuotaMonitoring LoggingAlphaOptions
    LoggingBetaOptions NativeHistograms PodAndContainerStatsFromCRI PodLevelResourceManagers PodsAPI
    PreventStaticPodAPIReferences QOSReserved ResourceHealthStatus ResourceHealthStatusMessage
    RuntimeClassInImageCriApi SELinuxChangePolicy SELinuxMount SELinuxMountReadWriteOncePod
    TaintTolerationComparisonOperators TopologyManagerPolicyAlphaOptions TopologyManagerPolicyBetaOptions
    TopologyManagerPolicyOptions UserNamespacesHostNetworkSupport WatchListClient
    """
)
"""Features of nodes that the agent does not have."""
ELSEWHERE: Final = _names(
    """
    APIResponseCompression APIServerIdentity APIServerTracing APIServingWithRoutine
    AggregatedDiscoveryRemoveBetaType AllowInsecureKubeletCertificateSigningRequests AllowParsingUserUIDFromCertAuth
    AllowServiceExternalIPs AllowUnsafeMalformedObjectDeletion AnonymousAuthConfigurableEndpoints
    AnyVolumeDataSource AtomicFIFO AuthorizeNodeWithSelectors AuthorizePodWebsocketUpgradeCreatePermission
    AuthorizeWithSelectors BtreeWatchCache CBORServingAndStorage CRDObservedGenerationTracking
    CRDValidationRatcheting ClearingNominatedNodeNameAfterBinding ClientsAllowCARotation ClientsAllowTLSCacheGC
    CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook ClusterTrustBundle
    ConcurrentWatchObjectDecode ConsistentListFromCache ConstrainedImpersonation
    ControllerManagerReleaseLeaderElectionLockOnExit CoordinatedLeaderElection CrossNamespaceVolumeDataSource
    CustomResourceFieldSelectors DRAListTypeAttributes DRANodeAllocatableResources
    DRAResourceClaimGranularStatusAuthorization DRAResourcePoolStatus DRASchedulerFilterTimeout
    DeclarativeValidation DeclarativeValidationBeta DeclarativeValidationTakeover
    DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency DisableAllocatorDualWrite
    ExternalServiceAccountTokenSigner GangScheduling GenericWorkload HPAConfigurableTolerance HPAScaleToZero
    InOrderInformers InOrderInformersBatchProcess InformerResourceVersion JobBackoffLimitPerIndex JobManagedBy
    JobPodReplacementPolicy JobSuccessPolicy KMSv1 ListFromCacheSnapshot LogarithmicScaleDown
    ManifestBasedAdmissionControlConfig MatchLabelKeysInPodAffinity MatchLabelKeysInPodTopologySpread
    MatchLabelKeysInPodTopologySpreadSelectorMerge MaxUnavailableStatefulSet MultiCIDRServiceAllocator
    MutablePVNodeAffinity MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs
    MutatingAdmissionPolicy NFTablesProxyMode NodeInclusionPolicyInPodTopologySpread NominatedNodeNameForExpectation
    OpenAPIEnums OpportunisticBatching OrderedNamespaceDeletion PersistentVolumeClaimUnusedSinceTime PodDeletionCost
    PodSchedulingReadiness PodTopologyLabelsAdmission PortForwardWebsockets PreferSameTrafficDistribution
    RelaxedServiceNameValidation RemoteRequestHeaderUID ResilientWatchCacheInitialization RetryGenerateName
    SchedulerAsyncAPICalls SchedulerAsyncPreemption SchedulerPopFromBackoffQ SchedulerQueueingHints
    SeparateCacheWatchRPC SeparateTaintEvictionController ServiceAccountNodeAudienceRestriction
    ServiceAccountTokenJTI ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation
    ServiceAccountTokenPodNodeInfo ServiceCIDRStatusFieldWiping ShardedListAndWatch SizeBasedListCostEstimate
    StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet
    StaleControllerConsistencyStatefulSet StatefulSetSemanticRevisionComparison StorageCapacityScoring
    StorageNamespaceIndex StorageVersionAPI StorageVersionHash StorageVersionMigrator
    StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf StrictIPCIDRValidation
    StructuredAuthenticationConfiguration StructuredAuthenticationConfigurationEgressSelector
    StructuredAuthenticationConfigurationJWKSMetrics TokenRequestServiceAccountUIDValidation
    TopologyAwareWorkloadScheduling TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation
    UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO VolumeAttributesClass VolumeLimitScaling
    WatchCacheInitializationPostStartHook WatchList WinDSR WinOverlay WindowsCPUAndMemoryAffinity
    WindowsGracefulNodeShutdown WindowsHostNetwork WorkloadAwarePreemption WorkloadWithJob
    """
)
"""Features of other components, client libraries and operating systems: without effect on this agent."""
LOCKED_ON: Final = _names(
    """
    APIServerTracing AggregatedDiscoveryRemoveBetaType AnonymousAuthConfigurableEndpoints AnyVolumeDataSource
    AuthorizeNodeWithSelectors AuthorizeWithSelectors BtreeWatchCache CPUManagerPolicyOptions
    CRDValidationRatcheting CSIServiceAccountTokenSecrets ConsistentListFromCache CustomResourceFieldSelectors
    DRAAdminAccess DeclarativeValidation DisableAllocatorDualWrite DisableNodeKubeProxyVersion
    DynamicResourceAllocation ExecProbeTimeout ExternalServiceAccountTokenSigner ImageMaximumGCAge ImageVolume
    InOrderInformers InPlacePodVerticalScaling JobBackoffLimitPerIndex JobManagedBy JobPodReplacementPolicy
    JobSuccessPolicy KubeletCgroupDriverFromCRI KubeletFineGrainedAuthz KubeletPSI
    KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletTracing LogarithmicScaleDown
    MatchLabelKeysInPodAffinity MultiCIDRServiceAllocator MutableCSINodeAllocatableCount NFTablesProxyMode
    NodeInclusionPolicyInPodTopologySpread NodeLogQuery NodeSwap OrderedNamespaceDeletion PodLifecycleSleepAction
    PodLifecycleSleepActionAllowZero PodObservedGenerationTracking PodSchedulingReadiness
    PreferSameTrafficDistribution ProcMountType RecoverVolumeExpansionFailure RecursiveReadOnlyMounts
    RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation ResilientWatchCacheInitialization
    RetryGenerateName SELinuxChangePolicy SELinuxMountReadWriteOncePod SchedulerQueueingHints
    SeparateTaintEvictionController ServiceAccountTokenJTI ServiceAccountTokenNodeBinding
    ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo SidecarContainers
    StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf StructuredAuthenticationConfiguration
    SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions UserNamespacesSupport
    VolumeAttributesClass WinDSR WinOverlay
    """
)
"""Gates that cannot be false in this version."""
LOCKED_OFF: Final = _names(
    """
    AllowOverwriteTerminationGracePeriodSeconds GitRepoVolumeDriver SeparateCacheWatchRPC
    """
)
"""Gates that cannot be true in this version."""
NEEDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "ClusterTrustBundleProjection": ("ClusterTrustBundle",),
        "DRADeviceBindingConditions": ("DRAResourceClaimDeviceStatus",),
        "DRADeviceTaintRules": ("DRADeviceTaints",),
        "DRAResourceClaimGranularStatusAuthorization": ("DRAResourceClaimDeviceStatus",),
        "DRAWorkloadResourceClaims": ("GenericWorkload",),
        "ExtendWebSocketsToKubelet": ("NodeDeclaredFeatures",),
        "GangScheduling": ("GenericWorkload",),
        "GracefulNodeShutdownBasedOnPodPriority": ("GracefulNodeShutdown",),
        "InPlacePodLevelResourcesVerticalScaling": ("NodeDeclaredFeatures", "PodLevelResources"),
        "InPlacePodVerticalScalingInitContainers": ("NodeDeclaredFeatures",),
        "MatchLabelKeysInPodTopologySpreadSelectorMerge": ("MatchLabelKeysInPodTopologySpread",),
        "PodLevelResourceManagers": ("PodLevelResources",),
        "ResourceHealthStatusMessage": ("ResourceHealthStatus",),
        "RestartAllContainersOnContainerExits": ("ContainerRestartRules", "NodeDeclaredFeatures"),
        "StaleControllerConsistencyDaemonSet": ("AtomicFIFO",),
        "StaleControllerConsistencyJob": ("AtomicFIFO",),
        "StaleControllerConsistencyReplicaSet": ("AtomicFIFO",),
        "StaleControllerConsistencyStatefulSet": ("AtomicFIFO",),
        "StorageVersionAPI": ("APIServerIdentity",),
        "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
        "UnknownVersionInteroperabilityProxy": ("APIServerIdentity",),
        "UserNamespacesHostNetworkSupport": ("NodeDeclaredFeatures",),
        "WindowsGracefulNodeShutdown": ("GracefulNodeShutdown",),
        "WorkloadAwarePreemption": ("GangScheduling",),
        "WorkloadWithJob": ("GenericWorkload",),
    }
)
"""Gates that can only be on if others are on, without those that are locked to true."""
NEEDS_ALPHA: Final = _names(
    """
    DRAWorkloadResourceClaims GangScheduling GenericWorkload PodLevelResourceManagers StorageVersionAPI
    TopologyAwareWorkloadScheduling UserNamespacesHostNetworkSupport WorkloadAwarePreemption WorkloadWithJob
    """
)
"""Gates of `NEEDS` that are alpha, and so off by default; the others are beta."""
NEEDS_OFF: Final = _names("ClusterTrustBundle ClusterTrustBundleProjection DRADeviceTaintRules")
"""Gates of `NEEDS` that are beta and off by default; the others are on."""
ALPHA: Final = frozenset({"MemoryQoS", "ReduceDefaultCrashLoopBackOffDecay"})
"""Switches that the gate AllAlpha includes."""
BETA: Final = frozenset({"KubeletCrashLoopBackOffMax"})
"""Switches that the gate AllBeta includes."""

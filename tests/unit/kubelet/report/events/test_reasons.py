"""The reasons of events: each of the Go kubelet is sent here, or docs/parity.md says why not."""

import ast
import re
from pathlib import Path

from pykubelet.kubelet.types.reports import events
from pykubelet.kubelet.types.reports.events import Reason

REPOSITORY = Path(__file__).resolve().parents[5]
AGENT = REPOSITORY / "src" / "pykubelet" / "kubelet"
OWN = {
    Reason.KUBELET_CONFIG_CHANGED,
    Reason.KUBELET_CONFIG_REFUSED,
    Reason.RUNTIME_NOT_READY,
    Reason.HISTORY_DAMAGED,
    Reason.HISTORY_UNAVAILABLE,
}
"""Reasons that upstream does not have."""
UPSTREAM = frozenset(
    re.findall(
        r"\w+",
        """
    Created Started Failed Killing Preempting BackOff ExceededGracePeriod FailedKillPod FailedCreatePodContainer
    NetworkNotReady ResizeDeferred ResizeInfeasible ResizeCompleted ResizeStarted ResizeError
    FailedNodeDeclaredFeaturesCheck Pulling Pulled InspectFailed ErrImageNeverPull NodeReady NodeNotReady
    NodeSchedulable NodeNotSchedulable Starting KubeletSetupFailed FailedAttachVolume FailedMount VolumeResizeFailed
    VolumeResizeSuccessful FileSystemResizeFailed VolumePermissionChangeInProgress FileSystemResizeSuccessful
    FailedMapVolume AlreadyMountedVolume SuccessfulAttachVolume SuccessfulMountVolume Rebooted Shutdown
    ContainerGCFailed ImageGCFailed FailedNodeAllocatableEnforcement NodeAllocatableEnforced SandboxChanged
    FailedCreatePodSandBox FailedPodSandBoxStatus FailedMountOnFilesystemMismatch FailedPrepareDynamicResources
    PossibleMemoryBackedVolumesOnDisk CgroupV1 InvalidImageID InvalidDiskCapacity FreeDiskSpaceFailed Unhealthy
    ProbeWarning FailedSync FailedValidation FailedPostStartHook FailedPreStopHook
    CertificateExpired CertificateOverdueForRefresh CheckLimitsForResolvConf DNSConfigForming DeadlineExceeded Denied
    Evicted EvictionThresholdMet FailedToRetrieveImagePullSecret HostIPsIPFamilyMismatch MissingClusterDNS SystemOOM
    NodeHasSufficientMemory NodeHasInsufficientMemory NodeHasNoDiskPressure NodeHasDiskPressure NodeHasSufficientPID
    NodeHasInsufficientPID VolumeAttachmentLimitExceeded VolumeConditionAbnormal
    """,
    )
)
"""Reasons of a 1.36 kubelet: those of ``pkg/kubelet/events/event.go``, then those that its code writes out."""


_WITH_NAMES = {"condition_events.py", "dns.py", "pod_credentials.py"}
"""Modules with reasons that are not in `Reason`."""


def _sent() -> set[str]:
    """Return the reasons in the agent's code: attributes of `Reason`, and in some modules strings."""
    found: set[str] = set()
    for path in AGENT.rglob("*.py"):
        if path == Path(events.__file__):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and path.name in _WITH_NAMES:
                found.add(node.value)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Reason":
                found.add(getattr(Reason, node.attr))
    return found


def _stated() -> set[str]:
    text = (REPOSITORY / "docs" / "parity.md").read_text()
    section = text.partition("\n## Events that are not sent\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| [^|]{20,} \|$", section, re.MULTILINE)
    return {name for row in rows for name in row.split(", ")} - {"reason of upstream"}


def test_each_reason_of_upstream_is_sent_or_stated() -> None:
    assert UPSTREAM - _sent() == _stated()


def test_each_reason_of_the_agent_is_sent_and_known() -> None:
    reasons = {value for name, value in vars(Reason).items() if name.isupper()}
    assert reasons - OWN <= UPSTREAM
    assert reasons <= _sent()

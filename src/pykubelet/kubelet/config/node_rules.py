"""The rules of KubeletConfiguration about the node itself that types do not express. Pure.

Source: the Go kubelet's ``ValidateKubeletConfiguration`` (``pkg/kubelet/apis/config/validation``).
"""

from collections.abc import Iterator
from typing import Final

from pykubelet.base.errors import Invalid
from pykubelet.base.suggestion import closest
from pykubelet.base.units import parse_duration
from pykubelet.kubelet.config.feature_gates import gate_is_on
from pykubelet.kubelet.config.v1beta1 import KubeletConfiguration
from pykubelet.models.quantity import parse

PODS: Final = "pods"
SYSTEM: Final = "system-reserved"
KUBE: Final = "kube-reserved"
COMPRESSIBLE: Final = "-compressible"
"""Suffix of the enforcements that limit the CPU only."""
_NONE: Final = "none"
_RESERVABLE: Final = ("cpu", "memory", "ephemeral-storage", "pid")
_ENFORCEMENTS: Final = (PODS, SYSTEM, KUBE, SYSTEM + COMPRESSIBLE, KUBE + COMPRESSIBLE, _NONE)
_PERIOD_GATE: Final = "CustomCPUCFSQuotaPeriod"
_MEMORY_GATE: Final = "MemoryQoS"
_MEMORY_POLICIES: Final = ("None", "TieredReservation")


def wrong_node_fields(config: KubeletConfiguration) -> Iterator[str]:
    """Yield a message for each violated rule; it begins with the field's name."""
    if not -1000 <= config.oom_score_adj <= 1000:
        yield "oomScoreAdj: must be from -1000 to 1000"
    yield from _wrong_numbers(config)
    yield from _wrong_period(config)
    yield from _wrong_memory_qos(config)
    yield from _wrong_reservations(config)
    yield from _wrong_enforcement(config)


def _wrong_numbers(config: KubeletConfiguration) -> Iterator[str]:
    for field, value in (
        ("maxPods", config.max_pods),
        ("podsPerCore", config.pods_per_core),
        ("registryPullQPS", config.registry_pull_qps),
        ("registryBurst", config.registry_burst),
        ("eventRecordQPS", config.event_record_qps),
        ("eventBurst", config.event_burst),
        ("kubeAPIQPS", config.kube_apiqps),
        ("kubeAPIBurst", config.kube_api_burst),
    ):
        if value < 0:
            yield f"{field}: must not be negative"
    if config.node_status_max_images < -1:
        yield "nodeStatusMaxImages: must be -1 (all) or more"
    if config.node_lease_duration_seconds <= 0:
        yield "nodeLeaseDurationSeconds: must be greater than 0"


def _wrong_period(config: KubeletConfiguration) -> Iterator[str]:
    """The kernel allows periods from 1 ms to 1 s."""
    try:
        period = parse_duration(config.cpu_cfs_quota_period)
    except Invalid:
        return  # reported with the other durations
    if not gate_is_on(config.feature_gates, _PERIOD_GATE):
        if period != parse_duration(KubeletConfiguration().cpu_cfs_quota_period):
            yield f"cpuCFSQuotaPeriod: requires the feature gate {_PERIOD_GATE}, which featureGates switches off"
    elif not 0.001 <= period <= 1:
        yield "cpuCFSQuotaPeriod: must be from 1ms to 1s"


def _wrong_memory_qos(config: KubeletConfiguration) -> Iterator[str]:
    gate, policy = gate_is_on(config.feature_gates, _MEMORY_GATE), config.memory_reservation_policy
    if not 0 < config.memory_throttling_factor <= 1:
        yield "memoryThrottlingFactor: must be greater than 0 and not greater than 1"
    if policy not in _MEMORY_POLICIES:
        yield f"memoryReservationPolicy: {policy!r} is not known; use {' or '.join(_MEMORY_POLICIES)}"
    elif not gate and policy != _MEMORY_POLICIES[0]:
        yield f"memoryReservationPolicy: requires the feature gate {_MEMORY_GATE}; add it to featureGates"


def _wrong_reservations(config: KubeletConfiguration) -> Iterator[str]:
    for field, given in (("systemReserved", config.system_reserved), ("kubeReserved", config.kube_reserved)):
        for name, value in given.items():
            if name not in _RESERVABLE and not name.startswith("hugepages-"):
                close = closest(name, _RESERVABLE)
                yield f"{field}.{name}: cannot be reserved; use {', '.join(_RESERVABLE)}" + (
                    f" (did you mean {close}?)" if close else ""
                )
                continue
            try:
                negative = parse(value).nano < 0
            except Invalid as error:
                yield f"{field}.{name}: {error}"
                continue
            if negative:
                yield f"{field}.{name}: must not be negative"


def _wrong_enforcement(config: KubeletConfiguration) -> Iterator[str]:
    given = config.enforce_node_allocatable
    for index, each in enumerate(given):
        if each not in _ENFORCEMENTS:
            yield f"enforceNodeAllocatable: {each!r} is not known; use {', '.join(_ENFORCEMENTS)}"
        if each in given[:index]:
            yield f"enforceNodeAllocatable: {each!r} is there twice"
    if _NONE in given and len(given) > 1:
        yield 'enforceNodeAllocatable: "none" excludes all others'
    for kind, field, cgroup, amounts in (
        (SYSTEM, "systemReserved", config.system_reserved_cgroup, config.system_reserved),
        (KUBE, "kubeReserved", config.kube_reserved_cgroup, config.kube_reserved),
    ):
        both = {kind, kind + COMPRESSIBLE}
        if both <= set(given):
            yield f"enforceNodeAllocatable: {kind!r} and {kind + COMPRESSIBLE!r} exclude each other"
        if not both & set(given):
            continue
        for name, value in ((f"{field}Cgroup", cgroup), (field, amounts)):
            if not value:
                yield f"{name}: must be set, since enforceNodeAllocatable contains {kind!r} or {kind + COMPRESSIBLE!r}"
        if not config.cgroups_per_qos:
            yield f"enforceNodeAllocatable: {kind!r} needs cgroupsPerQOS: true"

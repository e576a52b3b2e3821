"""In which order and with how much grace the containers of a pod are stopped. Pure; KEP-753, KEP-2238."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.criconfig.labels import ParsedContainerLabels
from pykubelet.kubelet.actuate.podruntime.types import MINIMUM_GRACE, KillReason
from pykubelet.kubelet.types.ids import PodRef, ref_of
from pykubelet.kubelet.types.podspec import AnyContainer, grace_period, is_sidecar
from pykubelet.models.core_v1 import ContainerPort, LifecycleHandler, Pod


@dataclass(frozen=True, slots=True)
class StopFacts:
    """All that is needed to stop a container; from the pod's spec or from what was noted at its creation."""

    ref: PodRef
    name: str
    grace: Seconds
    pre_stop: LifecycleHandler | None = None
    ports: tuple[ContainerPort, ...] = ()
    """For a hook that names its port."""


def facts_from_spec(pod: Pod, container: AnyContainer, reason: KillReason) -> StopFacts:
    """A deletion's grace period comes first, then that of the probe which failed, then the pod's."""
    probe = {
        KillReason.STARTUP_PROBE: container.startup_probe,
        KillReason.LIVENESS_PROBE: container.liveness_probe,
    }.get(reason)
    grace = grace_period(pod)
    deleted = pod.metadata.deletion_grace_period_seconds is not None
    if not deleted and probe is not None and probe.termination_grace_period_seconds is not None:
        grace = probe.termination_grace_period_seconds
    pre_stop = container.lifecycle.pre_stop if container.lifecycle is not None else None
    return StopFacts(ref_of(pod), container.name, grace, pre_stop, container.ports)


def facts_from_labels(noted: ParsedContainerLabels) -> StopFacts:
    """For a container whose pod is gone, or whose spec no longer names it."""
    grace = noted.deletion_grace_period
    if grace is None:
        grace = noted.termination_grace_period
    return StopFacts(noted.ref, noted.name, MINIMUM_GRACE if grace is None else grace, noted.pre_stop, noted.ports)


def remaining_grace(grace: Seconds, elapsed: Seconds) -> Seconds:
    """What is left for the container itself, in whole seconds: never less than the minimum."""
    return max(MINIMUM_GRACE, math.ceil(grace - elapsed))


def stop_order(pod: Pod | None, running: Collection[str]) -> Mapping[str, frozenset[str]]:
    """Which running containers each container waits for before it is stopped.

    Sidecars wait for all ordinary containers and for the sidecars after them, so they stop in reverse order of their
    start. Everything else waits for nothing and has no entry.
    """
    if pod is None:
        return {}
    later = {c.name for c in pod.spec.containers if c.name in running}
    waits: dict[str, frozenset[str]] = {}
    for container in reversed(pod.spec.init_containers):
        if is_sidecar(container) and container.name in running:
            waits[container.name] = frozenset(later)
            later.add(container.name)
    return waits

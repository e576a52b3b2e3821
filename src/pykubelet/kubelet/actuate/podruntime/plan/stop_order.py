"""Stop order and grace periods of the containers of a pod. Pure; KEP-753, KEP-2238."""

import math
from collections.abc import Collection

from msgspec import Struct

from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.cri_messages.labels import ParsedContainerLabels
from pykubelet.kubelet.actuate.podruntime.podruntime_types import MINIMUM_GRACE, KillReason
from pykubelet.kubelet.types.ids import PodRef, ref_of
from pykubelet.kubelet.types.podspec import AnyContainer, grace_period, is_sidecar
from pykubelet.models.core_v1 import ContainerPort, LifecycleHandler, Pod


class StopFacts(Struct, frozen=True):
    """Parameters to stop a container, from the pod's spec or from the container's labels and annotations."""

    ref: PodRef
    name: str
    grace: Seconds
    pre_stop: LifecycleHandler | None = None
    ports: tuple[ContainerPort, ...] = ()
    """Container ports, for a hook that refers to a port by name."""


def facts_from_spec(pod: Pod, container: AnyContainer, reason: KillReason) -> StopFacts:
    """Facts from the spec. Grace period: of the deletion, else of the failed probe, else of the pod."""
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
    """Facts from labels, for a container whose pod is gone or whose spec no longer contains it."""
    grace = noted.deletion_grace_period
    if grace is None:
        grace = noted.termination_grace_period
    return StopFacts(noted.ref, noted.name, MINIMUM_GRACE if grace is None else grace, noted.pre_stop, noted.ports)


def remaining_grace(grace: Seconds, elapsed: Seconds) -> Seconds:
    """Grace period left for stopping the container, in whole seconds, at least ``MINIMUM_GRACE``."""
    return max(MINIMUM_GRACE, math.ceil(grace - elapsed))


class StopOrder(Struct, frozen=True):
    """The order of the stops of a pod's running containers."""

    free: tuple[str, ...] = ()
    """Ordinary containers, which the sidecars wait for; they wait for none."""
    sidecars: tuple[str, ...] = ()
    """In the order of their stops: each waits for all ordinary containers and for the sidecars before it."""


def stop_order(pod: Pod | None, running: Collection[str]) -> StopOrder:
    """Return the order in which running containers stop: sidecars last, in reverse order of their start.

    Other containers are not in it. Its size is that of the pod: with a set for each of thousands of sidecars it would
    take gigabytes.
    """
    if pod is None:
        return StopOrder()
    return StopOrder(
        tuple(c.name for c in pod.spec.containers if c.name in running),
        tuple(c.name for c in reversed(pod.spec.init_containers) if is_sidecar(c) and c.name in running),
    )

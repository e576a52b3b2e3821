"""Pods that may be evicted."""

from collections.abc import Iterable, Mapping
from typing import Any

from pykubelet.kubelet.observe.eviction.eviction_types import Part, PodUse, Resource
from pykubelet.kubelet.observe.eviction.plan.ranking import rank
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import Pod

MI = 1 << 20


def make_pod(uid: str, spec: Mapping[str, Any] | None = None, **resources: Mapping[str, str]) -> Pod:
    container = {"name": "c", "image": "i", "resources": resources}
    return from_builtins(
        {"metadata": {"name": uid, "namespace": "d", "uid": uid}, "spec": {"containers": [container], **(spec or {})}},
        Pod,
    )


def ranked(
    pods: Iterable[Pod], uses: Mapping[PodUID, PodUse], resource: Resource, measured: frozenset[Part] = frozenset(Part)
) -> list[Pod]:
    """The pods in the order of eviction."""
    return sorted(pods, key=lambda pod: rank(pod, uses.get(ref_of(pod).uid), resource, measured))

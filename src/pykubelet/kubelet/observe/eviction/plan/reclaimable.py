"""What may be removed when a disk is short, without losing what the agent still needs to know."""

from collections.abc import Collection, Iterable

from pykubelet.kubelet.observe.eviction.eviction_types import Reclaim
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.updates import is_static
from pykubelet.models.core_v1 import Pod

_FINAL = ("Succeeded", "Failed")


def reclaimable(what: Collection[Reclaim], *, sources_read: bool) -> frozenset[Reclaim]:
    """Return what of ``what`` may be removed now; ``sources_read``: whether every source of pods has been read.

    Until then the agent does not know its pods, and would take what all of them have in the runtime for garbage.
    """
    return frozenset(what) if sources_read else frozenset(what) - {Reclaim.CONTAINERS}


def with_recorded_end(ended: Iterable[Pod]) -> frozenset[PodUID]:
    """Return those of the pods that have ended whose end the API server has recorded, by their objects.

    Otherwise containers are the only record of it, as they always are for a static pod: without them, the pod would run
    again after a restart of the agent.
    """
    return frozenset(ref_of(pod).uid for pod in ended if not is_static(pod) and pod.status.phase in _FINAL)

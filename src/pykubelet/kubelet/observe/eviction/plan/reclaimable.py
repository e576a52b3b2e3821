"""Dead containers that may be removed when a disk is short, without losing what the agent still needs to know."""

from collections.abc import Collection, Iterable

from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.updates import is_static
from pykubelet.models.core_v1 import Pod

_FINAL = ("Succeeded", "Failed")


def without_need_of_containers(ended: Iterable[Pod], evicted: Collection[PodUID]) -> frozenset[PodUID]:
    """Return those of the pods that have ended whose containers may go: evicted ones, and those with a recorded end.

    The API server's object of a pod records its end. Otherwise containers are the only record of it, as they always are
    for a static pod: without them, the pod would run again after a restart of the agent. Evicted pods may: they had to
    end for this space, and without it the next pods would be evicted while the API server is away.
    """
    return frozenset(
        uid
        for pod in ended
        if not is_static(pod) and ((uid := ref_of(pod).uid) in evicted or pod.status.phase in _FINAL)
    )

"""Orphaned pods of the node: the leftovers of a crash, or of a lost race. Pure."""

from collections.abc import Iterable

from msgspec import Struct

from pykubelet.kubelet.types.ids import PodRef, PodUID
from pykubelet.kubelet.types.runtime import RuntimePod


class Orphans(Struct, frozen=True):
    """Pods without a worker, by what exists of them on the node."""

    pods: tuple[PodRef, ...]
    """Pods that the runtime has: to be stopped and removed."""
    leftovers: tuple[PodUID, ...]
    """Pods of which only directories, mounts or cgroups exist: to be released."""


def find_orphans(known: Iterable[PodUID], runtime: Iterable[RuntimePod], on_disk: Iterable[PodUID]) -> Orphans:
    """Return the pods of the runtime and on disk that have no worker."""
    alive = set(known)
    in_runtime = {pod.uid: pod.ref for pod in runtime if pod.uid not in alive}
    leftovers = sorted(set(on_disk) - alive - in_runtime.keys())
    return Orphans(tuple(in_runtime.values()), tuple(leftovers))

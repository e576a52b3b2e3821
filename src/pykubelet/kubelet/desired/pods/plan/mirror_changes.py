"""Mirror pods to create and to delete, from the desired pods and those of the API server. Pure."""

from collections.abc import Container, Iterable

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.kubelet.types.ids import PodFullName, ref_of
from pykubelet.kubelet.types.updates import ANNOTATION_HASH, ANNOTATION_MIRROR, is_static
from pykubelet.models.core_v1 import Node, Pod, PodStatus
from pykubelet.models.meta_v1 import ObjectMeta, OwnerReference


class MirrorPlan(Struct, frozen=True):
    """Changes of mirror pods at the API server, deletions first."""

    delete: tuple[Pod, ...] = ()
    """Mirror pods that are outdated, marked for deletion, or without a static pod."""
    create: tuple[Pod, ...] = ()
    """Static pods without a mirror pod after the deletions."""


def is_mirror_of(mirror: Pod, pod: Pod) -> bool:
    """Whether a mirror pod shows the current version of a static pod: the same name and hash."""
    shown = mirror.metadata.annotations.get(ANNOTATION_MIRROR)
    return (
        is_static(pod)
        and ref_of(mirror).full_name == ref_of(pod).full_name
        and shown is not None
        and shown == pod.metadata.annotations.get(ANNOTATION_HASH)
    )


def plan_mirrors(pods: Iterable[Pod], mirrors: Iterable[Pod], ending: Container[PodFullName]) -> MirrorPlan:
    """Compare static pods with mirror pods.

    ``ending`` are the names of static pods that are being stopped because they were removed or have a new version:
    their mirror pods stay until then, so that clients see the grace period.
    """
    static = {ref_of(pod).full_name: pod for pod in pods if is_static(pod)}
    shown = {ref_of(mirror).full_name: mirror for mirror in mirrors}
    delete, create = [], []
    for name, mirror in shown.items():
        pod = static.get(name)
        if name in ending:
            continue
        if pod is None or mirror.metadata.deletion_timestamp is not None or not is_mirror_of(mirror, pod):
            delete.append(mirror)
    replaced = {ref_of(mirror).full_name for mirror in delete}
    for name, pod in static.items():
        if name in replaced or (name not in shown and name not in ending):
            create.append(pod)
    return MirrorPlan(tuple(delete), tuple(create))


def mirror_for(pod: Pod, node: Node) -> Pod:
    """Return the mirror pod to create for a static pod; the Node object owns it, so it is deleted with the node."""
    meta = pod.metadata
    owner = OwnerReference(
        api_version="v1", kind="Node", name=node.metadata.name, uid=node.metadata.uid, controller=True
    )
    annotations = meta.annotations | {ANNOTATION_MIRROR: meta.annotations.get(ANNOTATION_HASH, "")}
    return replace(
        pod,
        api_version="v1",
        kind="Pod",
        metadata=ObjectMeta(
            name=meta.name,
            namespace=meta.namespace or "default",
            labels=meta.labels,
            annotations=annotations,
            finalizers=meta.finalizers,
            owner_references=(owner,),
        ),
        status=PodStatus(),
    )

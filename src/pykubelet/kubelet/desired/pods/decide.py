"""Which mirror pods have to be made and which taken away, from what is wanted and what the API server has. Pure."""

from collections.abc import Container, Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from pykubelet.kubelet.types.ids import PodFullName, ref_of
from pykubelet.kubelet.types.updates import ANNOTATION_HASH, ANNOTATION_MIRROR, is_static
from pykubelet.models.core_v1 import Node, Pod, PodStatus
from pykubelet.models.meta_v1 import ObjectMeta, OwnerReference


@dataclass(frozen=True, slots=True)
class MirrorPlan:
    """What to do at the API server, deletions first."""

    delete: tuple[Pod, ...] = ()
    """Mirror pods that are outdated, marked for deletion by somebody, or of no pod."""
    create: tuple[Pod, ...] = ()
    """Static pods without a mirror, once the deletions are done."""


def is_mirror_of(mirror: Pod, pod: Pod) -> bool:
    """Whether a mirror pod shows this very version of a static pod: same name, and the hash of the same content."""
    shown = mirror.metadata.annotations.get(ANNOTATION_MIRROR)
    return (
        is_static(pod)
        and ref_of(mirror).full_name == ref_of(pod).full_name
        and shown is not None
        and shown == pod.metadata.annotations.get(ANNOTATION_HASH)
    )


def plan_mirrors(pods: Iterable[Pod], mirrors: Iterable[Pod], ending: Container[PodFullName]) -> MirrorPlan:
    """``ending`` are static pods that nobody wants any more and that are still being stopped: theirs stay till then."""
    static = {ref_of(pod).full_name: pod for pod in pods if is_static(pod)}
    shown = {ref_of(mirror).full_name: mirror for mirror in mirrors}
    delete, create = [], []
    for name, mirror in shown.items():
        pod = static.get(name)
        if pod is None and name in ending:
            continue
        if pod is None or mirror.metadata.deletion_timestamp is not None or not is_mirror_of(mirror, pod):
            delete.append(mirror)
    replaced = {ref_of(mirror).full_name for mirror in delete}
    for name, pod in static.items():
        if name not in shown or name in replaced:
            create.append(pod)
    return MirrorPlan(tuple(delete), tuple(create))


def mirror_for(pod: Pod, node: Node) -> Pod:
    """The mirror pod of a static pod, to be created; it belongs to the node and goes with it."""
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

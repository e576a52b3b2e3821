"""Facts from the runtime's lists without the desired pods: the pods of its containers, and its file systems. Pure."""

from collections.abc import Iterable, Sequence

from pykubelet.kubelet.actuate.cri_messages.labels import POD_NAME, POD_NAMESPACE, POD_UID
from pykubelet.models.core_v1 import Container, Pod, PodSpec
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.pb import runtime_v1_pb2 as pb


def bare_pods(containers: Iterable[pb.Container]) -> list[Pod]:
    """Return the pods of these containers as far as the runtime's labels tell them; sorted by uid."""
    found: dict[str, list[pb.Container]] = {}
    for container in containers:
        found.setdefault(container.labels.get(POD_UID, ""), []).append(container)
    return [_bare_pod(uid, rows) for uid, rows in sorted(found.items()) if uid]


def _bare_pod(uid: str, containers: Sequence[pb.Container]) -> Pod:
    labels = containers[0].labels
    return Pod(
        metadata=ObjectMeta(name=labels.get(POD_NAME, ""), namespace=labels.get(POD_NAMESPACE, ""), uid=uid),
        spec=PodSpec(containers=tuple(Container(name=c.metadata.name, image=c.image.image) for c in containers)),
    )


def first_mountpoint(file_systems: Iterable[pb.FilesystemUsage]) -> str:
    """Return a path on the first file system of which the runtime tells one; empty: it tells none."""
    return next((each.fs_id.mountpoint for each in file_systems if each.fs_id.mountpoint), "")

"""Conversion of a manifest's pod to a static pod of this node: name, uid, node and annotations. Pure.

Rules of the Go kubelet's ``config`` package: a pod from a file or a URL is named ``NAME-NODENAME``, has a uid that is a
hash of its content and origin, so that a changed manifest is a new pod, and tolerates every NoExecute taint.
"""

import hashlib

from msgspec.structs import replace

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.types.updates import ANNOTATION_HASH, ANNOTATION_SOURCE, Source
from pykubelet.models import core_v1 as core

MAX_NAME = 253
_MAX_FILE_NAME = 255
"""Bytes of a file name on Linux (NAME_MAX)."""


def adopt(pod: core.Pod, digest: str, source: Source, origin: str, node_name: str) -> core.Pod:
    """Return the static pod for a manifest's pod.

    ``digest`` is the hash of the manifest's content, ``origin`` the path or URL it comes from; both and the
    node's name go into the uid, unless the manifest names a uid itself. ``kubernetes.io/config.seen`` is set
    later, when the pod is first seen. Raises Invalid when the name becomes too long, also as a part of the name
    of the log directory.
    """
    meta = pod.metadata
    name = f"{meta.name}-{node_name.lower()}"
    if len(name) > MAX_NAME:
        raise Invalid(f"with the node's name added, {name!r} is longer than {MAX_NAME}; shorten metadata.name")
    uid = meta.uid or static_uid(digest, source, origin, node_name)
    excess = len(f"{meta.namespace or 'default'}_{name}_{uid}".encode()) - _MAX_FILE_NAME
    if excess > 0:
        raise Invalid(
            f"the name of the pod's log directory, its namespace, name with the node's name, and uid, would be longer "
            f"than {_MAX_FILE_NAME} bytes; shorten metadata.name by {excess}"
        )
    annotations = meta.annotations | {ANNOTATION_HASH: uid, ANNOTATION_SOURCE: source.value}
    metadata = replace(meta, name=name, namespace=meta.namespace or "default", uid=uid, annotations=annotations)
    spec = replace(pod.spec, node_name=node_name)
    if source is Source.FILE:
        spec = replace(spec, tolerations=_tolerating(spec.tolerations))
    return replace(pod, metadata=metadata, spec=spec, status=core.PodStatus(phase="Pending"))


def manifest_name(name: str, node_name: str) -> str:
    """Return the name in the manifest of a static pod of this name."""
    return name.removesuffix(f"-{node_name.lower()}")


def static_uid(digest: str, source: Source, origin: str, node_name: str) -> str:
    """Return a uid of 32 hex digits, the same for the same manifest of the same origin, also after a restart."""
    place = f"host:{node_name}\nfile:{origin}" if source is Source.FILE else f"url:{origin}"
    return hashlib.sha256(f"{digest}\n{place}".encode()).hexdigest()[:32]


def _tolerating(tolerations: tuple[core.Toleration, ...]) -> tuple[core.Toleration, ...]:
    """Return the tolerations plus one for all NoExecute taints, so that taints of the node do not evict the pod."""
    everything = core.Toleration(operator="Exists", effect="NoExecute")
    return tolerations if everything in tolerations else (*tolerations, everything)

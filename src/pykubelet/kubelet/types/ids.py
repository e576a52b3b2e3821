"""Identifiers of pods, sandboxes and containers."""

from typing import NewType

from msgspec import Struct

from pykubelet.models.core_v1 import Pod

PodUID = NewType("PodUID", str)
"""The uid of a pod; for a static pod the hash of its manifest."""

ContainerID = NewType("ContainerID", str)
"""A container id of the runtime, without the API's prefix ``runtime://``."""

SandboxID = NewType("SandboxID", str)
"""A pod sandbox id of the runtime."""

PodFullName = NewType("PodFullName", str)
"""``NAME_NAMESPACE``, the same for all pods that one static manifest has had."""


class PodRef(Struct, frozen=True):
    """A pod's namespace, name and uid, for events, logs and the timeline, which do not need the whole object."""

    namespace: str
    name: str
    uid: PodUID

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def full_name(self) -> PodFullName:
        """The full name, which a later pod with the same name and another uid shares."""
        return PodFullName(f"{self.name}_{self.namespace}")


def trace_attributes(ref: PodRef) -> dict[str, str]:
    """Return the attributes of a pod's spans, with the Go kubelet's names."""
    return {
        "k8s.pod": str(ref),
        "k8s.pod.name": ref.name,
        "k8s.pod.uid": ref.uid,
        "k8s.namespace.name": ref.namespace,
    }


def ref_of(pod: Pod) -> PodRef:
    """Return the reference to a pod object."""
    meta = pod.metadata
    return PodRef(meta.namespace or "default", meta.name, PodUID(meta.uid))

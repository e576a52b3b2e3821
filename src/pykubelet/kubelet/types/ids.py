"""Identities that travel between the stages."""

from dataclasses import dataclass
from typing import NewType

from pykubelet.models.core_v1 import Pod

PodUID = NewType("PodUID", str)
"""The uid of a pod; for a static pod the hash of its manifest."""

ContainerID = NewType("ContainerID", str)
"""A container id as the runtime gives it, without the ``runtime://`` prefix of the API."""

SandboxID = NewType("SandboxID", str)
"""A pod sandbox id as the runtime gives it."""

PodFullName = NewType("PodFullName", str)
"""``NAME_NAMESPACE``: what two incarnations of one static pod have in common."""


@dataclass(frozen=True, slots=True)
class PodRef:
    """Names one pod wherever the whole object is not needed (events, logs, the timeline)."""

    namespace: str
    name: str
    uid: PodUID

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def full_name(self) -> PodFullName:
        """The name that the next incarnation of the pod will also have."""
        return PodFullName(f"{self.name}_{self.namespace}")


def ref_of(pod: Pod) -> PodRef:
    """The reference to a pod object."""
    meta = pod.metadata
    return PodRef(meta.namespace or "default", meta.name, PodUID(meta.uid))

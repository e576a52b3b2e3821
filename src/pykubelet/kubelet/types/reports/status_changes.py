"""Changes of the status of pods, as the status manager announces them."""

from msgspec import Struct

from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.models.core_v1 import Pod, PodStatus


class StatusChange(Struct, frozen=True):
    """One change of a pod's status, for subscribers."""

    pod: Pod
    previous: PodStatus | None
    """None: the pod is new."""
    current: PodStatus | None
    """None: the pod has been forgotten."""
    version: int

    @property
    def uid(self) -> PodUID:
        return ref_of(self.pod).uid

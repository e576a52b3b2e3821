"""The steps of a pod's start, as the timeline records them."""

from enum import StrEnum
from typing import Protocol

from pykubelet.kubelet.types.ids import PodUID
from pykubelet.models.core_v1 import Pod


class Step(StrEnum):
    """Steps in the order in which a pod takes them; steps of containers carry the container's name."""

    SEEN = "seen"
    """The source has delivered the pod."""
    QUEUED = "queued"
    """The pod has waited until its worker started."""
    CGROUP = "cgroup"
    VOLUMES = "volumes"
    SANDBOX = "sandbox"
    PULL = "pull"
    CREATE = "create"
    START = "start"
    POST_START = "postStart"
    INIT = "init"
    """An init container has run to completion."""
    READY = "ready"


class Timeline(Protocol):
    """The recorder of how long the steps of a pod's start take. Never fails, costs microseconds."""

    def pod_seen(self, pod: Pod) -> None:
        """Record that a source delivered a pod that is new to the agent."""

    def begin(self, uid: PodUID, step: Step, container: str = "") -> None:
        """Record that a step begins now; a second call restarts the step."""

    def end(self, uid: PodUID, step: Step, container: str = "", error: str = "") -> None:
        """Record that a step ends now; a step without a begin is a point in time."""

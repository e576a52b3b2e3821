"""The steps of a pod's start, as the timeline records them."""

from enum import StrEnum
from typing import Protocol

from pykubelet.kubelet.types.ids import PodUID


class Step(StrEnum):
    """Steps in the order a pod takes them; container steps carry the container's name."""

    SEEN = "seen"
    """The source delivered the pod."""
    QUEUED = "queued"
    """Its worker took it up."""
    CGROUP = "cgroup"
    VOLUMES = "volumes"
    SANDBOX = "sandbox"
    PULL = "pull"
    CREATE = "create"
    START = "start"
    POST_START = "postStart"
    INIT = "init"
    """An init container ran to its end."""
    READY = "ready"


class Timeline(Protocol):
    """Where the stages note how long the steps of a pod's start took. Never fails, costs microseconds."""

    def begin(self, uid: PodUID, step: Step, container: str = "") -> None:
        """A step begins now; beginning it again restarts it."""

    def end(self, uid: PodUID, step: Step, container: str = "", error: str = "") -> None:
        """The step has ended now; without a begin it is a point in time."""

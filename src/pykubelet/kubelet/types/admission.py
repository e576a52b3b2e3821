"""The result of the admission of a pod."""

from dataclasses import dataclass

from pykubelet.kubelet.types.ids import PodUID


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of admission: admitted unless there is a reason. Reasons and messages are those of the Go kubelet."""

    reason: str = ""
    """``OutOfcpu``, ``NodeAffinity``, ``SysctlForbidden``, …"""
    message: str = ""
    preempts: tuple[PodUID, ...] = ()
    """Pods to be preempted for it."""

    @property
    def admitted(self) -> bool:
        return not self.reason


ADMITTED = Verdict()

PREEMPTION_MESSAGE = "Preempted in order to admit critical pod"

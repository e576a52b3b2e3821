"""What became of a pod that asked to be let onto the node."""

from dataclasses import dataclass

from pykubelet.kubelet.types.ids import PodUID


@dataclass(frozen=True, slots=True)
class Verdict:
    """Admitted unless there is a reason. Reasons and messages are the reference's."""

    reason: str = ""
    """``OutOfcpu``, ``NodeAffinity``, ``SysctlForbidden``, …"""
    message: str = ""
    preempts: tuple[PodUID, ...] = ()
    """Pods that have to go to make room."""

    @property
    def admitted(self) -> bool:
        return not self.reason


ADMITTED = Verdict()

PREEMPTION_MESSAGE = "Preempted in order to admit critical pod"

"""The result of the admission of a pod."""

from dataclasses import dataclass, field

from pykubelet.kubelet.types.decisions import Decision, Topic
from pykubelet.kubelet.types.ids import PodUID


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of admission: admitted unless there is a reason. Reasons and messages are those of the Go kubelet."""

    reason: str = ""
    """``OutOfcpu``, ``NodeAffinity``, ``SysctlForbidden``, …"""
    message: str = ""
    preempts: tuple[PodUID, ...] = ()
    """Pods to be preempted for it."""
    rule: str = field(default="", compare=False)
    """The rule that decided."""

    @property
    def admitted(self) -> bool:
        return not self.reason

    @property
    def decision(self) -> Decision:
        """The verdict as a decision for the journal."""
        if not self.admitted:
            return Decision(Topic.ADMISSION, "", "reject", f"rule {self.rule}: {self.reason}", self.message)
        text = f"{len(self.preempts)} other pods are preempted for it" if self.preempts else ""
        return Decision(Topic.ADMISSION, "", "admit", self.rule, text)


ADMITTED = Verdict(rule="no rule rejects it")

PREEMPTION_MESSAGE = "Preempted in order to admit critical pod"

"""The result of the admission of a pod, and the texts for pods that are ended or rejected for the node's sake."""

from dataclasses import dataclass, field
from typing import Final

from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.reports.decisions import Decision, Topic
from pykubelet.kubelet.types.reports.events import Reason


@dataclass(frozen=True, slots=True)
class AdmissionVerdict:
    """The result of admission: admitted unless there is a reason. Reasons and messages are those of the Go kubelet."""

    reason: str = ""
    """``OutOfcpu``, ``NodeAffinity``, ``SysctlForbidden``, …"""
    message: str = ""
    preempts: tuple[PodUID, ...] = ()
    """Pods to be preempted for it."""
    preempted_for: str = ""
    """The resource of which there is too little with them; the first one, if of several."""
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


ADMITTED = AdmissionVerdict(rule="no rule rejects it")

NODE_AFFINITY = "NodeAffinity"
"""The reason of a pod whose node selector or affinity the node's labels do not match."""
REJECTIONS: Final = frozenset({Reason.VOLUME_ATTACHMENT_LIMIT_EXCEEDED})
"""Reasons of failures to prepare an admitted pod for which it is rejected, so that it runs on another node."""
PREEMPTION_MESSAGE = "Preempted in order to admit critical pod"

SHUTDOWN_REASON = "Terminated"
"""Reason in the status of a pod that a shutdown of the machine has ended (KEP-2000)."""
SHUTDOWN_MESSAGE = "Pod was terminated in response to imminent node shutdown."
SHUTDOWN_REJECTION = "NodeShutdown"
"""Reason in the status of a pod that was not admitted because the machine is shutting down."""
SHUTDOWN_REJECTION_MESSAGE = "Pod was rejected as the node is shutting down."

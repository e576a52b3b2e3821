"""Decisions about pods with their reasons, as the pure functions return them; shown by ``pykubelet explain``."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from pykubelet.kubelet.types.ids import PodUID


class Topic(StrEnum):
    """Topic of a decision."""

    ADMISSION = "admission"
    POD = "pod"
    SANDBOX = "sandbox"
    VOLUMES = "volumes"
    CONTAINER = "container"
    PROBE = "probe"


class Decision(Struct, frozen=True):
    """A decision about a pod. Texts are English; nothing is from Secrets or the environment of containers."""

    topic: Topic
    subject: str
    """The container's name; empty: the pod."""
    action: str
    """The action: ``start``, ``stop``, ``wait``, ``keep`` …"""
    reason: str
    """The reason. Equal reasons of the same action are counted, so it has no times or counters."""
    message: str = ""
    """Details of the last time; may differ each time."""
    idle: bool = False
    """Nothing is done: shown as part of the last sync only."""


class DecisionRecorder(Protocol):
    """The recorder of decisions of all stages; never blocks and never fails, costs microseconds."""

    def add(self, uid: PodUID, decisions: Iterable[Decision]) -> None:
        """Record decisions about a pod, in their order."""

    def synced(self, uid: PodUID, decisions: Iterable[Decision]) -> None:
        """Record all decisions of a sync; they replace those of the sync before as the last ones."""

    def forget(self, uid: PodUID) -> None:
        """Forget a pod that was removed. Idempotent."""

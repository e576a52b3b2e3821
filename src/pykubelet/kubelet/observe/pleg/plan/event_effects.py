"""PLEG's reaction to an event of the runtime, by what it knows of the container. Pure."""

from typing import TypeAlias

from msgspec import Struct

from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.pleg.pleg_types import PlegConfig
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.runtime_events import RuntimeEvent, RuntimeEventKind


class PodStateChange(Struct, frozen=True):
    """Change the known state of the pod."""

    uid: PodUID


class PodCheck(Struct, frozen=True):
    """Check the pod at once."""

    uid: PodUID


class Relist(Struct, frozen=True):
    """List all pods within this time."""

    within: Seconds


Effect: TypeAlias = PodStateChange | PodCheck | Relist | None
"""None: nothing is to be done."""


def effect(event: RuntimeEvent, owner: PodUID | None, config: PlegConfig) -> Effect:
    """Return what the event leads to. ``owner`` is the known pod of its container."""
    uid = owner
    if event.kind is not RuntimeEventKind.DELETED and event.seen is not None:
        uid = event.seen.uid
    if uid is not None:
        return PodStateChange(uid)
    if event.kind in (RuntimeEventKind.DELETED, RuntimeEventKind.OOM):
        return None  # An unknown container need not be removed, and an OOM kill alone does not end a container.
    if event.pod_uid is not None:
        return PodCheck(event.pod_uid)
    # The worker that started a container checks it itself; only the end of one is urgent.
    return Relist(0.0 if event.kind is RuntimeEventKind.STOPPED else config.batch_delay)

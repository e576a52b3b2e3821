"""Views of ``explain``: why a pod is in its state. Times are Unix seconds, durations seconds."""

from msgspec import Struct


class WaitView(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Something that the pod waits for now."""

    kind: str
    """``backOff``, ``volumes``, ``retry``, ``probe``, or the step of a start that is being taken (``pull`` …)."""
    subject: str = ""
    """The container; empty: the pod."""
    reason: str = ""
    message: str = ""
    seconds_left: float | None = None
    """Time until the next attempt, if it is known."""
    since: float | None = None
    """Time at which it began, if that is known."""
    times: int = 0
    """Number of consecutive failures of a probe; 0: it has not failed."""
    last_at: float | None = None
    """Time of the last run of a probe, if there was one."""


class DecisionView(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One decision, with the number of times that it was taken for the same reason."""

    at: float
    """Of the last time."""
    first_at: float
    count: int = 1
    topic: str
    subject: str = ""
    action: str
    reason: str
    message: str = ""


class SyncView(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The last sync of the pod: what it decided about each container."""

    at: float
    decisions: tuple[DecisionView, ...] = ()
    next_in: float | None = None
    """Time until the next sync at the latest; an event may lead to an earlier one."""


class ExplainView(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The reason why a pod is in its state."""

    namespace: str
    name: str
    uid: str
    phase: str
    """``status.phase``."""
    reason: str = ""
    message: str = ""
    worker: str = ""
    """Phase of the pod's worker: sync, terminating, terminated, removed; empty: it has none."""
    admission: DecisionView | None = None
    """The last admission."""
    waits: tuple[WaitView, ...] = ()
    last_sync: SyncView | None = None
    decisions: tuple[DecisionView, ...] = ()
    """The newest first."""

"""Schedule of PLEG's lists of all pods and checks of single ones, its trust in the event stream, its health. Pure.

All times are monotonic seconds.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.pleg.pleg_types import PlegConfig
from pykubelet.kubelet.types.ids import PodUID


class ScheduledCheck(Struct, frozen=True):
    """Schedule of the checks of a pod in transition. Times are monotonic seconds."""

    since: Seconds
    """Time of its last known or announced change."""
    at: Seconds
    """Time of the next check."""


def first_check(now: Seconds, config: PlegConfig) -> ScheduledCheck:
    """Return the first check of a pod that is expected to change soon."""
    return ScheduledCheck(now, now + config.first_check)


def next_check(check: ScheduledCheck, now: Seconds, config: PlegConfig) -> ScheduledCheck | None:
    """Return the check after one that saw no change; None when the relist of all pods comes as soon.

    Intervals are proportional to the time since the last change: an early change is detected early, and a pod that
    takes long is checked rarely.
    """
    interval = max(config.first_check, config.check_ratio * (now - check.since))
    return ScheduledCheck(check.since, now + interval) if interval < config.relist_period else None


class DueWork(Struct, frozen=True):
    """Work that is due: a list of all pods, checks of some, or nothing for ``wait`` seconds."""

    wait: Seconds = 0.0
    relist: bool = False
    checks: tuple[PodUID, ...] = ()


def due(
    relist_at: Seconds, checks: Mapping[PodUID, ScheduledCheck], free_at: Seconds, now: Seconds, most: int
) -> DueWork:
    """Return what is due now. Nothing is before ``free_at``; above ``most`` checks a list of all pods is cheaper."""
    wanted = min((relist_at, *(check.at for check in checks.values())))
    wait = max(wanted, free_at) - now
    if wait > 0:
        return DueWork(wait=wait)
    ready = tuple(uid for uid, check in checks.items() if check.at <= now)
    return DueWork(relist=True) if relist_at <= now or len(ready) > most else DueWork(checks=ready)


def free_at(began: Seconds, ended: Seconds, config: PlegConfig) -> Seconds:
    """Return the time before which nothing else is done, so that a slow runtime is not asked all the time."""
    pause = (ended - began) * (1 / config.busy_share - 1)
    return ended + min(pause, config.relist_period)


def relist_at(started: Seconds, config: PlegConfig, *, trusted: bool) -> Seconds:
    """Return the time of the list after one that began at ``started``. ``trusted``: the runtime's events are."""
    return started + (config.relist_with_events if trusted else config.relist_period)


def is_trusted(stream_since: Seconds | None, now: Seconds, config: PlegConfig) -> bool:
    """Whether the event stream has lasted long enough to be relied on; ``stream_since`` None: it does not exist."""
    return stream_since is not None and now - stream_since >= config.trust_after


def following_checks(
    checks: Mapping[PodUID, ScheduledCheck], made: Iterable[PodUID], now: Seconds, config: PlegConfig
) -> dict[PodUID, ScheduledCheck]:
    """Return the next checks of the pods whose check was made; a pod without one waits for the list of all pods."""
    found = {uid: next_check(checks[uid], now, config) for uid in made}
    return {uid: check for uid, check in found.items() if check is not None}


def fault(last_success: Seconds | None, now: Seconds, config: PlegConfig) -> str | None:
    """Return None, or why PLEG is unhealthy, in the words of the Go kubelet. ``last_success``: None before the first
    successful list."""
    if last_success is None:
        return "pleg has yet to be successful"
    elapsed = now - last_success
    if elapsed <= config.threshold:
        return None
    return f"pleg was last seen active {duration_text(elapsed)} ago; threshold is {duration_text(config.threshold)}"


def duration_text(seconds: Seconds) -> str:
    """Format a duration as Go does (``3m0s``), to milliseconds: alerts parse the health message."""
    millis = round(seconds * 1000)
    minutes, rest = divmod(millis, 60_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{rest / 1000:g}s"
    if minutes or hours:
        text = f"{minutes}m{text}"
    return f"{hours}h{text}" if hours else text

"""Eviction thresholds, and the node conditions that follow from them over time (pure).

The rules are those of the Go kubelet's eviction manager.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from pykubelet.base.errors import Invalid
from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.eviction.eviction_types import (
    CONDITION_OF,
    Amount,
    EvictionConfig,
    PressureCondition,
    Signal,
    SignalObservation,
    Threshold,
)
from pykubelet.kubelet.types.resources.eviction import DEFAULT_HARD, percentage
from pykubelet.models.quantity import to_value


class PressureState(Struct, frozen=True):
    """State between two checks. Times are monotonic seconds."""

    met: tuple[Threshold, ...] = ()
    """Thresholds acted upon by the last check; they stay met until their minimum reclaim is available too."""
    since: Mapping[Threshold, Seconds] = field(default_factory=dict)
    """Time at which each threshold was first met."""
    conditions: Mapping[PressureCondition, Seconds] = field(default_factory=dict)
    """Time at which each condition last held."""


def thresholds(
    hard: Mapping[str, str],
    soft: Mapping[str, str],
    grace: Mapping[str, Seconds],
    reclaim: Mapping[str, str],
    *,
    allocatable: bool = False,
) -> tuple[Threshold, ...]:
    """Return the configured thresholds; without hard ones, the defaults. Raises Invalid with the field and the cause.

    A threshold of 0% or 100% turns its signal off. ``allocatable``: the hard threshold of the node's memory holds for
    the memory that all pods together may use, too (``enforceNodeAllocatable: [pods]``).
    """
    for field_name, names in (("evictionSoftGracePeriod", grace), ("evictionMinimumReclaim", reclaim)):
        for name in names:
            _known(field_name, name)
    more = {name: _reclaim(f"evictionMinimumReclaim[{name}]", text) for name, text in reclaim.items()}
    found = []
    for field_name, given in (("evictionHard", hard or DEFAULT_HARD), ("evictionSoft", soft)):
        for name, text in given.items():
            _known(field_name, name)
            least = amount(f"{field_name}[{name}]", text)
            wait = grace.get(name, -1.0) if field_name == "evictionSoft" else 0.0
            if wait < 0:
                raise Invalid(f"evictionSoft[{name}]: needs a time in evictionSoftGracePeriod")
            if least.share is None and least.value == 0:
                raise Invalid(f"{field_name}[{name}]: {text!r} must be positive; 0% turns the signal off")
            if least.share not in (0.0, 1.0):
                found.append(Threshold(Signal(name), least, wait, more.get(name, Amount())))
    if allocatable:
        copied = (each for each in found if each.signal is Signal.MEMORY and each.hard)
        found += [replace(each, signal=Signal.ALLOCATABLE_MEMORY) for each in copied]
    return tuple(dict.fromkeys(found))


def amount(name: str, text: str) -> Amount:
    """Parse a quantity or a percentage. Raises Invalid."""
    if not text.endswith("%"):
        try:
            value = to_value(text)
        except Invalid as error:
            raise Invalid(f"{name}: {error}") from error
        if value < 0:
            raise Invalid(f"{name}: {text!r} must not be negative")
        return Amount(value)
    try:
        share = percentage(text)
    except (ValueError, OverflowError) as error:
        raise Invalid(f"{name}: {text!r} is not a percentage") from error
    if not 0 <= share <= 1:
        raise Invalid(f"{name}: {text!r} must be from 0% to 100%")
    return Amount(share=share)


def _reclaim(name: str, text: str) -> Amount:
    found = amount(name, text)
    if found.share == 0:
        raise Invalid(f"{name}: {text!r} must be positive")
    return found


def _known(field_name: str, name: str) -> None:
    if name not in tuple(Signal):
        raise Invalid(f"{field_name}: unknown eviction signal {name!r}; there are {', '.join(Signal)}")


def met(
    all_of: Iterable[Threshold], seen: Mapping[Signal, SignalObservation], *, with_reclaim: bool = False
) -> tuple[Threshold, ...]:
    """Return the thresholds that are met now, regardless of their grace period. Unreadable signals are ignored."""
    found = []
    for threshold in all_of:
        now = seen.get(threshold.signal)
        if now is None:
            continue
        least = threshold.least.of(now.capacity)
        if with_reclaim:
            least += threshold.reclaim.of(now.capacity)
        if now.available < least:
            found.append(threshold)
    return tuple(found)


def next_state(
    state: PressureState, config: EvictionConfig, seen: Mapping[Signal, SignalObservation], now: Seconds
) -> PressureState:
    """Return the state after a check: ``met`` has the thresholds whose grace period has passed, most urgent first."""
    # A reload may have replaced thresholds: the former ones hold no more.
    unresolved = met((each for each in state.met if each in config.thresholds), seen, with_reclaim=True)
    current = tuple(dict.fromkeys((*met(config.thresholds, seen), *unresolved)))
    since = {threshold: state.since.get(threshold, now) for threshold in current}
    due = [threshold for threshold in current if now - since[threshold] >= threshold.grace]
    return replace(
        state,
        met=tuple(sorted(due, key=lambda threshold: CONDITION_OF[threshold.signal] is not PressureCondition.MEMORY)),
        since=since,
        conditions={**state.conditions, **{CONDITION_OF[threshold.signal]: now for threshold in current}},
    )


def conditions(state: PressureState, config: EvictionConfig, now: Seconds) -> frozenset[PressureCondition]:
    """Return the node conditions that hold now or held within the transition period."""
    return frozenset(c for c, last in state.conditions.items() if now - last < config.transition or last == now)

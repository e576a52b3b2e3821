"""Feature gates that a configuration may set, and their effects; the gates are in ``gate_table.py``. Pure.

The agent has no switches for single features, except those that `SWITCHES` names: what it has is always on.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from pykubelet.base.suggestion import closest
from pykubelet.kubelet.config.gate_table import (
    ABSENT,
    ALPHA,
    ALWAYS_ON,
    BETA,
    ELSEWHERE,
    LOCKED_OFF,
    LOCKED_ON,
    NEEDS,
    NEEDS_ALPHA,
    NEEDS_OFF,
    SWITCHES,
)

KNOWN: Final = frozenset(SWITCHES) | ALWAYS_ON | ABSENT | ELSEWHERE
"""All gates of a 1.36 kubelet, except the groups."""
_GROUPS: Final[Mapping[str, frozenset[str]]] = {"AllAlpha": ALPHA, "AllBeta": BETA}


def gate_is_on(gates: Mapping[str, bool], name: str) -> bool:
    """Return the value of a gate of `SWITCHES`: as set, else as its group is set, else its default."""
    if name in gates:
        return gates[name]
    groups = (gates[group] for group, members in _GROUPS.items() if name in members and group in gates)
    return next(groups, SWITCHES[name])


def wrong_gates(gates: Mapping[str, bool]) -> Iterator[str]:
    """Yield an error for each gate that this version does not know, or that is locked to the other value.

    Without such errors, yield one for each gate that is on although one that it needs is off, as upstream.
    """
    found = list(_unknown_or_locked(gates))
    yield from found or _without_their_needs(gates)


def _without_their_needs(gates: Mapping[str, bool]) -> Iterator[str]:
    def is_on(name: str) -> bool:
        alpha = name in NEEDS_ALPHA
        default = not alpha and name not in NEEDS_OFF
        return gates.get(name, gates.get("AllAlpha" if alpha else "AllBeta", default))

    for name, needed in NEEDS.items():
        off = [each for each in needed if not is_on(each)]
        if off and is_on(name):
            yield f"featureGates: {name} is enabled, but depends on features that are disabled: [{' '.join(off)}]"


def _unknown_or_locked(gates: Mapping[str, bool]) -> Iterator[str]:
    for name, on in sorted(gates.items()):
        if name not in KNOWN and name not in _GROUPS:
            close = closest(name, [*KNOWN, *_GROUPS])
            yield f"featureGates: unrecognized feature gate: {name}" + (f" (did you mean {close}?)" if close else "")
        elif name in (LOCKED_OFF if on else LOCKED_ON):
            want, locked = str(on).lower(), str(not on).lower()
            yield f"featureGates: cannot set feature gate {name} to {want}, feature is locked to {locked}"


def unusable_gates(gates: Mapping[str, bool]) -> Iterator[str]:
    """Yield a message for each valid gate that asks for something else than the agent does, by name."""
    for name, on in sorted(gates.items()):
        if name in ALWAYS_ON and not on:
            yield f"{name}=false: the feature cannot be switched off"
        elif name in ABSENT and on:
            yield f"{name}=true: the feature is not implemented"
        elif name in _GROUPS:
            yield f"{name}={str(on).lower()}: applies to {', '.join(sorted(_GROUPS[name]))} only"

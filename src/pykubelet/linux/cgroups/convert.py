"""Between the scales of cgroup v1 and v2. Pure.

The linear mapping is that of KEP-2254, which the kubelet keeps for the cgroups it makes itself; container
runtimes convert for the containers.
"""

from pykubelet.linux.cgroups.types import UNLIMITED

_MIN_SHARES, _MAX_SHARES = 2, 262_144
_MAX_WEIGHT = 10_000
DEFAULT_PERIOD_US = 100_000


def shares_to_weight(shares: int) -> int:
    """cpu.shares (2…262144) as cpu.weight (1…10000)."""
    bounded = max(_MIN_SHARES, min(shares, _MAX_SHARES))
    return 1 + (bounded - _MIN_SHARES) * (_MAX_WEIGHT - 1) // (_MAX_SHARES - _MIN_SHARES)


def weight_to_shares(weight: int) -> int:
    """cpu.weight as cpu.shares."""
    return _MIN_SHARES + (weight - 1) * (_MAX_SHARES - _MIN_SHARES) // (_MAX_WEIGHT - 1)


def limit(value: int) -> str:
    """A limit as cgroup v2 (and pids.max of v1) writes it."""
    return "max" if value == UNLIMITED else str(value)


def unlimited(text: str) -> int | None:
    """A limit as cgroup v2 shows it; None for nothing."""
    text = text.strip()
    return UNLIMITED if text == "max" else int(text) if text else None


def cpu_max(quota_us: int, period_us: int | None) -> str:
    """The content of cpu.max; without a period the kernel keeps the one in force."""
    return limit(quota_us) if period_us is None else f"{limit(quota_us)} {period_us}"


def flat_keyed(text: str) -> dict[str, int]:
    """A file of `name number` lines (memory.stat, cpu.stat)."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}

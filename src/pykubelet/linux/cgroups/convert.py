"""Conversion between the scales and formats of cgroup v1 and v2. Pure.

The linear mapping is that of KEP-2254, which the kubelet uses for the cgroups that it creates itself; container
runtimes convert for the containers.
"""

from pykubelet.linux.cgroups.cgroup_types import UNLIMITED, Pressure, Stall

_MIN_SHARES, _MAX_SHARES = 2, 262_144
_MAX_WEIGHT = 10_000
DEFAULT_PERIOD_US = 100_000


def shares_to_weight(shares: int) -> int:
    """Convert cpu.shares (2…262144) to cpu.weight (1…10000)."""
    bounded = max(_MIN_SHARES, min(shares, _MAX_SHARES))
    return 1 + (bounded - _MIN_SHARES) * (_MAX_WEIGHT - 1) // (_MAX_SHARES - _MIN_SHARES)


def weight_to_shares(weight: int) -> int:
    """Convert cpu.weight to cpu.shares."""
    return _MIN_SHARES + (weight - 1) * (_MAX_SHARES - _MIN_SHARES) // (_MAX_WEIGHT - 1)


def limit(value: int) -> str:
    """Format a limit as for cgroup v2 (and pids.max of v1)."""
    return "max" if value == UNLIMITED else str(value)


def unlimited(text: str) -> int | None:
    """Parse a limit of cgroup v2; None for empty text."""
    text = text.strip()
    return UNLIMITED if text == "max" else int(text) if text else None


def cpu_max(quota_us: int, period_us: int | None) -> str:
    """Format the content of cpu.max; without a period the kernel keeps the present one."""
    return limit(quota_us) if period_us is None else f"{limit(quota_us)} {period_us}"


def flat_keyed(text: str) -> dict[str, int]:
    """Parse a file of `name number` lines (memory.stat, cpu.stat)."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def pressure(text: str) -> Pressure | None:
    """Parse a pressure file of a cgroup or of the machine; None if it is empty.

    A line that older kernels lack (``full`` of the CPU) counts as zero.
    """
    lines: dict[str, Stall] = {}
    for line in text.splitlines():
        kind, *pairs = line.split()
        values = dict(pair.split("=", 1) for pair in pairs)
        averages = (float(values.get(key, 0)) for key in ("avg10", "avg60", "avg300"))
        lines[kind] = Stall(int(values.get("total", 0)), *averages)
    return Pressure(lines.get("some", Stall()), lines.get("full", Stall())) if lines else None
